// What Debian sid's Swift runtime takes from glibc 2.38 and Debian 12's 2.36 has not. Hidden: a program on a
// newer Debian must not find these in place of its own.
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HIDDEN __attribute__((visibility("hidden")))

// C23's differ only in that they read "0b1".
HIDDEN long __isoc23_strtol(const char *text, char **end, int base) {
    return strtol(text, end, base);
}

HIDDEN long long __isoc23_strtoll(const char *text, char **end, int base) {
    return strtoll(text, end, base);
}

HIDDEN unsigned long __isoc23_strtoul(const char *text, char **end, int base) {
    return strtoul(text, end, base);
}

HIDDEN int __isoc23_sscanf(const char *text, const char *format, ...) {
    va_list list;
    va_start(list, format);
    int count = vsscanf(text, format, list);
    va_end(list);
    return count;
}

HIDDEN size_t strlcpy(char *to, const char *from, size_t size) {
    size_t length = strlen(from);
    if (size > 0) {
        size_t copied = length < size ? length : size - 1;
        memcpy(to, from, copied);
        to[copied] = 0;
    }
    return length;
}

HIDDEN size_t strlcat(char *to, const char *from, size_t size) {
    size_t before = strnlen(to, size);
    return before == size ? size + strlen(from) : before + strlcpy(to + before, from, size - before);
}
