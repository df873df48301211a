// Loads a system library when it is first needed instead of with the program: a broken or missing library of one kind of
// destination then stops no recording.
//
// A target of C that wraps a library lists the functions it calls as FUNCTIONS(X), one X(name) each, and has
//
//     #define CLOAD_LIBRARY lib
//     static struct { FUNCTIONS(CLOAD_POINTER) } lib;
//     static const cload_function functions[] = {FUNCTIONS(CLOAD_ENTRY)};
//
// and calls cload once, by pthread_once. dpkg-shlibdeps does not see such a library: deploy/debian/control names its
// package.
#ifndef CLOAD_H
#define CLOAD_H

#include <stdbool.h>
#include <stddef.h>

// A function by its name in the library, and the pointer that gets its address.
typedef struct {
    const char *name;
    void *place;
} cload_function;

#define CLOAD_POINTER(function) __typeof__(&function) function;
#define CLOAD_ENTRY(function) {#function, &CLOAD_LIBRARY.function},
#define CLOAD_COUNT(functions) (sizeof(functions) / sizeof *(functions))

// Loads a library by its soname, never to be closed, and looks its functions up; whether it has all of them. If not,
// standard error says why and which package of Debian has it, and no pointer may be used.
bool cload(const char *soname, const char *package, const cload_function *functions, size_t count);

#endif
