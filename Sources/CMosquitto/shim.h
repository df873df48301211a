#ifndef EDGE_GATEWAY_CMOSQUITTO_SHIM_H
#define EDGE_GATEWAY_CMOSQUITTO_SHIM_H

// libmosquitto, and of libssl what it takes to say why a broker's certificate is refused: libmosquitto
// itself says no more than that TLS failed. Each function here stands for a macro, which Swift cannot call.

#include <mosquitto.h>
#include <mqtt_protocol.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

static inline int cmosquitto_require_tls12(SSL_CTX *context) {
    return SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
}

#endif
