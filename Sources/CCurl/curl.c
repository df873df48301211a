#include "CCurl.h"

#include <dlfcn.h>
#include <stdio.h>

// The name that every libcurl since 2006 has. With OpenSSL, which the fault table of Uplink reads.
static const char library_name[] = "libcurl.so.4";

static struct {
    __typeof__(&curl_global_init) global_init;
    __typeof__(&curl_easy_init) init;
    __typeof__(&curl_easy_cleanup) cleanup;
    __typeof__(&curl_easy_reset) reset;
    __typeof__(&curl_easy_perform) perform;
    __typeof__(&curl_easy_setopt) setopt;
    __typeof__(&curl_easy_getinfo) getinfo;
    __typeof__(&curl_slist_append) slist_append;
    __typeof__(&curl_slist_free_all) slist_free_all;
} curl;

bool ccurl_load(void) {
    // Never closed: libcurl and OpenSSL keep state for as long as the process runs.
    void *library = dlopen(library_name, RTLD_NOW | RTLD_LOCAL);
    if (library) {
        const struct { const char *name; void *place; } functions[] = {
            {"curl_global_init", &curl.global_init}, {"curl_easy_init", &curl.init},
            {"curl_easy_cleanup", &curl.cleanup},    {"curl_easy_reset", &curl.reset},
            {"curl_easy_perform", &curl.perform},    {"curl_easy_setopt", &curl.setopt},
            {"curl_easy_getinfo", &curl.getinfo},    {"curl_slist_append", &curl.slist_append},
            {"curl_slist_free_all", &curl.slist_free_all},
        };
        bool complete = true;
        for (size_t i = 0; complete && i < sizeof functions / sizeof *functions; i++) {
            // POSIX: a symbol's address fits a pointer to a function.
            void *symbol = dlsym(library, functions[i].name);
            *(void **)functions[i].place = symbol;
            complete = symbol != NULL;
        }
        if (complete) {
            return curl.global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
        }
    }
    const char *why = dlerror();
    fprintf(stderr, "edge-gateway: libcurl cannot be loaded: %s; install libcurl4\n",
        why ? why : library_name);
    return false;
}

CURL *ccurl_init(void) { return curl.init(); }
void ccurl_cleanup(CURL *easy) { curl.cleanup(easy); }
void ccurl_reset(CURL *easy) { curl.reset(easy); }
CURLcode ccurl_perform(CURL *easy) { return curl.perform(easy); }

struct curl_slist *ccurl_slist_append(struct curl_slist *list, const char *line) {
    return curl.slist_append(list, line);
}

void ccurl_slist_free_all(struct curl_slist *list) { curl.slist_free_all(list); }

CURLcode ccurl_set_long(CURL *easy, CURLoption option, long value) {
    return curl.setopt(easy, option, value);
}

CURLcode ccurl_set_string(CURL *easy, CURLoption option, const char *value) {
    return curl.setopt(easy, option, value);
}

CURLcode ccurl_set_headers(CURL *easy, struct curl_slist *headers) {
    return curl.setopt(easy, CURLOPT_HTTPHEADER, headers);
}

CURLcode ccurl_set_post_body(CURL *easy, const void *bytes, curl_off_t count) {
    CURLcode code = curl.setopt(easy, CURLOPT_POST, 1L);
    if (code == CURLE_OK) {
        code = curl.setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, count);
    }
    return code == CURLE_OK ? curl.setopt(easy, CURLOPT_POSTFIELDS, bytes) : code;
}

CURLcode ccurl_set_body_callback(CURL *easy, ccurl_bytes_callback callback, void *context) {
    CURLcode code = curl.setopt(easy, CURLOPT_WRITEFUNCTION, callback);
    return code == CURLE_OK ? curl.setopt(easy, CURLOPT_WRITEDATA, context) : code;
}

CURLcode ccurl_set_header_callback(CURL *easy, ccurl_bytes_callback callback, void *context) {
    CURLcode code = curl.setopt(easy, CURLOPT_HEADERFUNCTION, callback);
    return code == CURLE_OK ? curl.setopt(easy, CURLOPT_HEADERDATA, context) : code;
}

CURLcode ccurl_set_progress_callback(
    CURL *easy, ccurl_progress_callback callback, void *context) {
    CURLcode code = curl.setopt(easy, CURLOPT_XFERINFOFUNCTION, callback);
    if (code == CURLE_OK) {
        code = curl.setopt(easy, CURLOPT_XFERINFODATA, context);
    }
    return code == CURLE_OK ? curl.setopt(easy, CURLOPT_NOPROGRESS, 0L) : code;
}

CURLcode ccurl_get_long(CURL *easy, CURLINFO info, long *value) {
    return curl.getinfo(easy, info, value);
}

CURLcode ccurl_get_microseconds(CURL *easy, CURLINFO info, curl_off_t *value) {
    return curl.getinfo(easy, info, value);
}
