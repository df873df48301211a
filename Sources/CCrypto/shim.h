#ifndef EDGE_GATEWAY_CCRYPTO_SHIM_H
#define EDGE_GATEWAY_CCRYPTO_SHIM_H

// libcrypto of OpenSSL, which libcurl brings along anyway: HMAC and SHA-256, nothing else.

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/sha.h>

#endif
