// The tables of ICU that deploy/icu has made from the toolchain's. A program linked with Foundation statically
// takes these, because an object comes before the archives. Without them it has the toolchain's, which are 32 MB
// larger; a debug build has a Foundation of its own, and always the toolchain's.
#if defined(__OPTIMIZE__) && defined(__x86_64__) && __has_include("../../.build-icu/x86_64/tables.h")
#include "../../.build-icu/x86_64/tables.h"
#elif defined(__OPTIMIZE__) && defined(__aarch64__) && __has_include("../../.build-icu/aarch64/tables.h")
#include "../../.build-icu/aarch64/tables.h"
#endif
