// What the gateway uses of libcurl, loaded when it is first needed: libcurl brings some thirty libraries, which a
// command that asks the daemon something would otherwise wait for. Its setters are variadic, which Swift cannot
// call: each function here is one call with its argument type spelled out.
#ifndef CCURL_H
#define CCURL_H

#define CURL_DISABLE_TYPECHECK 1
#include <curl/curl.h>
#include <stdbool.h>

typedef size_t (*ccurl_bytes_callback)(char *bytes, size_t size, size_t count, void *context);
typedef int (*ccurl_progress_callback)(
    void *context, curl_off_t down_total, curl_off_t down, curl_off_t up_total, curl_off_t up);

// Loads libcurl and prepares it, at the first call; whether that succeeded. If not, standard error says why, and
// nothing that follows may be called.
bool ccurl_load(void);

CURL *ccurl_init(void);
void ccurl_cleanup(CURL *easy);
// Keeps connections' TLS sessions and the DNS cache, forgets every option.
void ccurl_reset(CURL *easy);
CURLcode ccurl_perform(CURL *easy);

struct curl_slist *ccurl_slist_append(struct curl_slist *list, const char *line);
void ccurl_slist_free_all(struct curl_slist *list);

CURLcode ccurl_set_long(CURL *easy, CURLoption option, long value);
// libcurl copies the string, except for CURLOPT_POSTFIELDS: see ccurl_set_post_body.
CURLcode ccurl_set_string(CURL *easy, CURLoption option, const char *value);
CURLcode ccurl_set_headers(CURL *easy, struct curl_slist *headers);
// A POST with exactly these bytes and their length as Content-Length. libcurl does not copy the bytes: they must stay
// put until the transfer is over.
CURLcode ccurl_set_post_body(CURL *easy, const void *bytes, curl_off_t count);
// A POST with so many bytes, which `callback` gives piece by piece; CURL_READFUNC_ABORT breaks off.
CURLcode ccurl_set_post_callback(CURL *easy, ccurl_bytes_callback callback, void *context, curl_off_t count);
CURLcode ccurl_set_body_callback(CURL *easy, ccurl_bytes_callback callback, void *context);
CURLcode ccurl_set_header_callback(CURL *easy, ccurl_bytes_callback callback, void *context);
CURLcode ccurl_set_progress_callback(CURL *easy, ccurl_progress_callback callback, void *context);

CURLcode ccurl_get_long(CURL *easy, CURLINFO info, long *value);
CURLcode ccurl_get_microseconds(CURL *easy, CURLINFO info, curl_off_t *value);

#endif
