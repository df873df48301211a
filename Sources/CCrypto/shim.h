#ifndef EDGE_GATEWAY_CCRYPTO_SHIM_H
#define EDGE_GATEWAY_CCRYPTO_SHIM_H

// libcrypto of OpenSSL, which libcurl brings along anyway: HMAC, SHA-256 and Ed25519, nothing else.

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/sha.h>

#endif
