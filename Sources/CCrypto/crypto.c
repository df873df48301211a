#include "CCrypto.h"

#include <CLoad.h>
#include <limits.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/sha.h>
#include <pthread.h>
#include <stdlib.h>

#define FUNCTIONS(X) \
    X(EVP_sha256) X(HMAC) X(SHA256) X(EVP_PKEY_new_raw_private_key) X(EVP_PKEY_get_raw_public_key) X(EVP_PKEY_free) \
    X(EVP_MD_CTX_new) X(EVP_MD_CTX_free) X(EVP_DigestSignInit) X(EVP_DigestSign)

_Static_assert(CCRYPTO_SHA256_BYTES == SHA256_DIGEST_LENGTH, "SHA-256 has 32 bytes");

#define CLOAD_LIBRARY lib
static struct { FUNCTIONS(CLOAD_POINTER) } lib;
static const cload_function functions[] = {FUNCTIONS(CLOAD_ENTRY)};

static void load(void) {
    if (!cload("libcrypto.so.3", "libssl3", functions, CLOAD_COUNT(functions))) abort();
}

static void need(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, load);
}

void ccrypto_sha256(const void *bytes, size_t count, uint8_t *digest) {
    need();
    if (!lib.SHA256(bytes, count, digest)) abort();
}

void ccrypto_hmac_sha256(
    const void *key, size_t key_count, const void *bytes, size_t count, uint8_t *digest) {
    need();
    if (key_count > INT_MAX) abort();
    if (!lib.HMAC(lib.EVP_sha256(), key, (int)key_count, bytes, count, digest, NULL)) abort();
}

bool ccrypto_ed25519_public_key(const uint8_t *seed, uint8_t *public_key) {
    need();
    EVP_PKEY *key = lib.EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL, seed, CCRYPTO_ED25519_SEED_BYTES);
    size_t count = CCRYPTO_ED25519_SEED_BYTES;
    bool done = key && lib.EVP_PKEY_get_raw_public_key(key, public_key, &count) == 1
        && count == CCRYPTO_ED25519_SEED_BYTES;
    lib.EVP_PKEY_free(key);
    return done;
}

bool ccrypto_ed25519_sign(const uint8_t *seed, const void *bytes, size_t count, uint8_t *signature) {
    need();
    EVP_PKEY *key = lib.EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL, seed, CCRYPTO_ED25519_SEED_BYTES);
    EVP_MD_CTX *context = lib.EVP_MD_CTX_new();
    size_t signed_count = CCRYPTO_ED25519_SIGNATURE_BYTES;
    bool done = key && context && lib.EVP_DigestSignInit(context, NULL, NULL, NULL, key) == 1
        && lib.EVP_DigestSign(context, signature, &signed_count, bytes, count) == 1
        && signed_count == CCRYPTO_ED25519_SIGNATURE_BYTES;
    lib.EVP_MD_CTX_free(context);
    lib.EVP_PKEY_free(key);
    return done;
}
