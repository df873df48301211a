// libcurl for Swift. Its setters and getters are variadic, which Swift cannot call: each function here is one call with
// its argument type spelled out.
#ifndef CCURL_H
#define CCURL_H

#define CURL_DISABLE_TYPECHECK 1
#include <curl/curl.h>

typedef size_t (*ccurl_bytes_callback)(char *bytes, size_t size, size_t count, void *context);
typedef int (*ccurl_progress_callback)(
    void *context, curl_off_t down_total, curl_off_t down, curl_off_t up_total, curl_off_t up);

static inline CURLcode ccurl_set_long(CURL *easy, CURLoption option, long value) {
    return curl_easy_setopt(easy, option, value);
}

// libcurl copies the string, except for CURLOPT_POSTFIELDS: see ccurl_set_post_body.
static inline CURLcode ccurl_set_string(CURL *easy, CURLoption option, const char *value) {
    return curl_easy_setopt(easy, option, value);
}

// libcurl does not copy the list: it must stay until the transfer is over.
static inline CURLcode ccurl_set_list(CURL *easy, CURLoption option, struct curl_slist *list) {
    return curl_easy_setopt(easy, option, list);
}

// A POST with exactly these bytes and their length as Content-Length. libcurl does not copy the bytes: they must stay
// put until the transfer is over.
static inline CURLcode ccurl_set_post_body(CURL *easy, const void *bytes, curl_off_t count) {
    CURLcode code = curl_easy_setopt(easy, CURLOPT_POST, 1L);
    if (code == CURLE_OK) code = curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, count);
    return code == CURLE_OK ? curl_easy_setopt(easy, CURLOPT_POSTFIELDS, bytes) : code;
}

// A POST with so many bytes, which `callback` gives piece by piece; CURL_READFUNC_ABORT breaks off.
static inline CURLcode ccurl_set_post_callback(
    CURL *easy, ccurl_bytes_callback callback, void *context, curl_off_t count) {
    CURLcode code = curl_easy_setopt(easy, CURLOPT_POST, 1L);
    if (code == CURLE_OK) code = curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, count);
    if (code == CURLE_OK) code = curl_easy_setopt(easy, CURLOPT_READFUNCTION, callback);
    return code == CURLE_OK ? curl_easy_setopt(easy, CURLOPT_READDATA, context) : code;
}

// An upload of so many bytes, which `callback` gives piece by piece: a mail, for instance.
static inline CURLcode ccurl_set_upload_callback(
    CURL *easy, ccurl_bytes_callback callback, void *context, curl_off_t count) {
    CURLcode code = curl_easy_setopt(easy, CURLOPT_UPLOAD, 1L);
    if (code == CURLE_OK) code = curl_easy_setopt(easy, CURLOPT_INFILESIZE_LARGE, count);
    if (code == CURLE_OK) code = curl_easy_setopt(easy, CURLOPT_READFUNCTION, callback);
    return code == CURLE_OK ? curl_easy_setopt(easy, CURLOPT_READDATA, context) : code;
}

static inline CURLcode ccurl_set_body_callback(CURL *easy, ccurl_bytes_callback callback, void *context) {
    CURLcode code = curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, callback);
    return code == CURLE_OK ? curl_easy_setopt(easy, CURLOPT_WRITEDATA, context) : code;
}

static inline CURLcode ccurl_set_header_callback(CURL *easy, ccurl_bytes_callback callback, void *context) {
    CURLcode code = curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, callback);
    return code == CURLE_OK ? curl_easy_setopt(easy, CURLOPT_HEADERDATA, context) : code;
}

static inline CURLcode ccurl_set_progress_callback(CURL *easy, ccurl_progress_callback callback, void *context) {
    CURLcode code = curl_easy_setopt(easy, CURLOPT_XFERINFOFUNCTION, callback);
    if (code == CURLE_OK) code = curl_easy_setopt(easy, CURLOPT_XFERINFODATA, context);
    return code == CURLE_OK ? curl_easy_setopt(easy, CURLOPT_NOPROGRESS, 0L) : code;
}

static inline CURLcode ccurl_get_long(CURL *easy, CURLINFO info, long *value) {
    return curl_easy_getinfo(easy, info, value);
}

static inline CURLcode ccurl_get_microseconds(CURL *easy, CURLINFO info, curl_off_t *value) {
    return curl_easy_getinfo(easy, info, value);
}

#endif
