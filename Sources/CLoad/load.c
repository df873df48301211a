#include "CLoad.h"

#include <dlfcn.h>
#include <stdio.h>

bool cload(const char *soname, const char *package, const cload_function *functions, size_t count) {
    // Never closed: OpenSSL, libcurl and libdbus keep state for as long as the process runs.
    void *library = dlopen(soname, RTLD_NOW | RTLD_LOCAL);
    bool complete = library != NULL;
    for (size_t i = 0; complete && i < count; i++) {
        // POSIX: a symbol's address fits a pointer to a function.
        void *symbol = dlsym(library, functions[i].name);
        *(void **)functions[i].place = symbol;
        complete = symbol != NULL;
    }
    if (!complete) {
        const char *why = dlerror();
        fprintf(stderr, "edge-gateway: %s cannot be loaded: %s; install %s\n", soname,
            why ? why : "a function is missing", package);
    }
    return complete;
}
