#include "CCrypto.h"

#include <CLoad.h>
#include <limits.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/sha.h>
#include <pthread.h>
#include <stdlib.h>

#define FUNCTIONS(X) X(EVP_sha256) X(HMAC) X(SHA256)

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
