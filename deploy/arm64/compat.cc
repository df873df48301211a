// GCC 13's libstdc++ sets up its streams by this function; Debian 12's, of GCC 12, by an object in each file.
#include <iostream>

extern "C" __attribute__((visibility("hidden"))) void _ZSt21ios_base_library_initv() {
    static std::ios_base::Init streams;
}
