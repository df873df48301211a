#include "CCurl.h"

#include <CLoad.h>
#include <pthread.h>

#define FUNCTIONS(X) \
    X(curl_global_init) X(curl_easy_init) X(curl_easy_cleanup) X(curl_easy_reset) X(curl_easy_perform) \
    X(curl_easy_setopt) X(curl_easy_getinfo) X(curl_slist_append) X(curl_slist_free_all)

#define CLOAD_LIBRARY lib
static struct { FUNCTIONS(CLOAD_POINTER) } lib;
static const cload_function functions[] = {FUNCTIONS(CLOAD_ENTRY)};
static bool is_ready;

static void load(void) {
    // The name that every libcurl since 2006 has. With OpenSSL, which the fault table of Uplink reads.
    is_ready = cload("libcurl.so.4", "libcurl4", functions, CLOAD_COUNT(functions))
        && lib.curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
}

bool ccurl_load(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, load);
    return is_ready;
}

CURL *ccurl_init(void) { return lib.curl_easy_init(); }
void ccurl_cleanup(CURL *easy) { lib.curl_easy_cleanup(easy); }
void ccurl_reset(CURL *easy) { lib.curl_easy_reset(easy); }
CURLcode ccurl_perform(CURL *easy) { return lib.curl_easy_perform(easy); }

struct curl_slist *ccurl_slist_append(struct curl_slist *list, const char *line) {
    return lib.curl_slist_append(list, line);
}

void ccurl_slist_free_all(struct curl_slist *list) { lib.curl_slist_free_all(list); }

CURLcode ccurl_set_long(CURL *easy, CURLoption option, long value) {
    return lib.curl_easy_setopt(easy, option, value);
}

CURLcode ccurl_set_string(CURL *easy, CURLoption option, const char *value) {
    return lib.curl_easy_setopt(easy, option, value);
}

CURLcode ccurl_set_headers(CURL *easy, struct curl_slist *headers) {
    return lib.curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers);
}

CURLcode ccurl_set_post_body(CURL *easy, const void *bytes, curl_off_t count) {
    CURLcode code = lib.curl_easy_setopt(easy, CURLOPT_POST, 1L);
    if (code == CURLE_OK) {
        code = lib.curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, count);
    }
    return code == CURLE_OK ? lib.curl_easy_setopt(easy, CURLOPT_POSTFIELDS, bytes) : code;
}

CURLcode ccurl_set_post_callback(CURL *easy, ccurl_bytes_callback callback, void *context, curl_off_t count) {
    CURLcode code = lib.curl_easy_setopt(easy, CURLOPT_POST, 1L);
    if (code == CURLE_OK) {
        code = lib.curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, count);
    }
    if (code == CURLE_OK) {
        code = lib.curl_easy_setopt(easy, CURLOPT_READFUNCTION, callback);
    }
    return code == CURLE_OK ? lib.curl_easy_setopt(easy, CURLOPT_READDATA, context) : code;
}

CURLcode ccurl_set_body_callback(CURL *easy, ccurl_bytes_callback callback, void *context) {
    CURLcode code = lib.curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, callback);
    return code == CURLE_OK ? lib.curl_easy_setopt(easy, CURLOPT_WRITEDATA, context) : code;
}

CURLcode ccurl_set_header_callback(CURL *easy, ccurl_bytes_callback callback, void *context) {
    CURLcode code = lib.curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, callback);
    return code == CURLE_OK ? lib.curl_easy_setopt(easy, CURLOPT_HEADERDATA, context) : code;
}

CURLcode ccurl_set_progress_callback(
    CURL *easy, ccurl_progress_callback callback, void *context) {
    CURLcode code = lib.curl_easy_setopt(easy, CURLOPT_XFERINFOFUNCTION, callback);
    if (code == CURLE_OK) {
        code = lib.curl_easy_setopt(easy, CURLOPT_XFERINFODATA, context);
    }
    return code == CURLE_OK ? lib.curl_easy_setopt(easy, CURLOPT_NOPROGRESS, 0L) : code;
}

CURLcode ccurl_get_long(CURL *easy, CURLINFO info, long *value) {
    return lib.curl_easy_getinfo(easy, info, value);
}

CURLcode ccurl_get_microseconds(CURL *easy, CURLINFO info, curl_off_t *value) {
    return lib.curl_easy_getinfo(easy, info, value);
}
