// What the gateway uses of OpenSSL's libcrypto, loaded when it is first needed. A signature that cannot be made must
// not be a wrong one: without libcrypto the process ends, and standard error says why.
#ifndef CCRYPTO_H
#define CCRYPTO_H

#include <stddef.h>
#include <stdint.h>

enum { CCRYPTO_SHA256_BYTES = 32 };

// Write the CCRYPTO_SHA256_BYTES of a digest.
void ccrypto_sha256(const void *bytes, size_t count, uint8_t *digest);
void ccrypto_hmac_sha256(
    const void *key, size_t key_count, const void *bytes, size_t count, uint8_t *digest);

#endif
