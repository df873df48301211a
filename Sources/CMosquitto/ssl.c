#include "CMosquitto.h"

#include <CLoad.h>
#include <pthread.h>

#define SSL_FUNCTIONS(X) \
    X(TLS_client_method) X(SSL_CTX_new) X(SSL_CTX_free) X(SSL_CTX_ctrl) X(SSL_CTX_load_verify_file) \
    X(SSL_CTX_set_default_verify_paths) X(SSL_CTX_use_certificate_chain_file) X(SSL_CTX_use_PrivateKey_file) \
    X(SSL_CTX_get0_param) X(SSL_CTX_set_verify) X(SSL_CTX_set_cert_verify_callback) X(SSL_in_init) X(SSL_want)
#define CRYPTO_FUNCTIONS(X) \
    X(X509_VERIFY_PARAM_set1_ip_asc) X(X509_VERIFY_PARAM_set1_host) X(X509_verify_cert) X(X509_STORE_CTX_get_error)

#define CLOAD_LIBRARY lib
static struct { SSL_FUNCTIONS(CLOAD_POINTER) CRYPTO_FUNCTIONS(CLOAD_POINTER) } lib;
static const cload_function ssl_functions[] = {SSL_FUNCTIONS(CLOAD_ENTRY)};
static const cload_function crypto_functions[] = {CRYPTO_FUNCTIONS(CLOAD_ENTRY)};
static bool is_there;

static void load(void) {
    is_there = cload("libssl.so.3", "libssl3", ssl_functions, CLOAD_COUNT(ssl_functions))
        && cload("libcrypto.so.3", "libssl3", crypto_functions, CLOAD_COUNT(crypto_functions));
}

bool cssl_load(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, load);
    return is_there;
}

SSL_CTX *cssl_client_new(void) {
    SSL_CTX *context = lib.SSL_CTX_new(lib.TLS_client_method());
    // What the macro SSL_CTX_set_min_proto_version stands for.
    if (context && lib.SSL_CTX_ctrl(context, SSL_CTRL_SET_MIN_PROTO_VERSION, TLS1_2_VERSION, NULL) == 1)
        return context;
    lib.SSL_CTX_free(context);
    return NULL;
}

void cssl_free(SSL_CTX *context) { lib.SSL_CTX_free(context); }

int cssl_load_verify_file(SSL_CTX *context, const char *file) {
    return lib.SSL_CTX_load_verify_file(context, file);
}

int cssl_set_default_verify_paths(SSL_CTX *context) {
    return lib.SSL_CTX_set_default_verify_paths(context);
}

int cssl_use_certificate_chain_file(SSL_CTX *context, const char *file) {
    return lib.SSL_CTX_use_certificate_chain_file(context, file);
}

int cssl_use_private_key_file(SSL_CTX *context, const char *file) {
    return lib.SSL_CTX_use_PrivateKey_file(context, file, SSL_FILETYPE_PEM);
}

bool cssl_expect(SSL_CTX *context, const char *host) {
    X509_VERIFY_PARAM *parameters = lib.SSL_CTX_get0_param(context);
    return lib.X509_VERIFY_PARAM_set1_ip_asc(parameters, host) == 1
        || lib.X509_VERIFY_PARAM_set1_host(parameters, host, 0) == 1;
}

void cssl_verify_by(SSL_CTX *context, cssl_verify_callback callback, void *callback_context) {
    lib.SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
    lib.SSL_CTX_set_cert_verify_callback(context, callback, callback_context);
}

int cssl_verify(X509_STORE_CTX *store) { return lib.X509_verify_cert(store); }

int cssl_verification_error(X509_STORE_CTX *store) { return lib.X509_STORE_CTX_get_error(store); }

bool cssl_is_in_handshake(const SSL *ssl) { return lib.SSL_in_init(ssl); }

bool cssl_wants_to_write(const SSL *ssl) { return lib.SSL_want(ssl) == SSL_WRITING; }
