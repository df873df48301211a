// What a program weighs that makes one request by libcurl and does nothing else: the floor of a gateway that delivers.
#include <curl/curl.h>
#include <stdio.h>

int main(void) {
    curl_global_init(CURL_GLOBAL_ALL);
    CURL *request = curl_easy_init();
    // Nothing listens there.
    curl_easy_setopt(request, CURLOPT_URL, "http://127.0.0.1:9/");
    curl_easy_perform(request);
    FILE *file = fopen("/proc/self/smaps_rollup", "r");
    char line[128];
    long kib;
    while (file && fgets(line, sizeof line, file)) {
        if (sscanf(line, "Rss: %ld", &kib) == 1) printf("libcurl_resident_kib %ld\n", kib);
        if (sscanf(line, "Anonymous: %ld", &kib) == 1) printf("libcurl_kib %ld\n", kib);
    }
    return 0;
}
