// What the gateway uses of OpenSSL's libcrypto, loaded when it is first needed. A signature that cannot be made must
// not be a wrong one: without libcrypto the process ends, and standard error says why.
#ifndef CCRYPTO_H
#define CCRYPTO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CCRYPTO_SHA256_BYTES = 32, CCRYPTO_ED25519_SEED_BYTES = 32, CCRYPTO_ED25519_SIGNATURE_BYTES = 64 };

// Write the CCRYPTO_SHA256_BYTES of a digest.
void ccrypto_sha256(const void *bytes, size_t count, uint8_t *digest);
void ccrypto_hmac_sha256(
    const void *key, size_t key_count, const void *bytes, size_t count, uint8_t *digest);

// Write the public key, which is as long as the seed, and the signature of a message by Ed25519 (RFC 8032); whether
// libcrypto could.
bool ccrypto_ed25519_public_key(const uint8_t *seed, uint8_t *public_key);
bool ccrypto_ed25519_sign(const uint8_t *seed, const void *bytes, size_t count, uint8_t *signature);

#endif
