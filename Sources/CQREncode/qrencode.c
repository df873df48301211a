#include "CQREncode.h"

#include <CLoad.h>
#include <pthread.h>

#define FUNCTIONS(X) X(QRcode_encodeString8bit) X(QRcode_free)

#define CLOAD_LIBRARY lib
static struct { FUNCTIONS(CLOAD_POINTER) } lib;
static const cload_function functions[] = {FUNCTIONS(CLOAD_ENTRY)};
static bool is_there;

static void load(void) {
    is_there = cload("libqrencode.so.4", "libqrencode4", functions, CLOAD_COUNT(functions));
}

QRcode *cqrencode_text(const char *text) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, load);
    return is_there ? lib.QRcode_encodeString8bit(text, 0, QR_ECLEVEL_M) : NULL;
}

void cqrencode_free(QRcode *code) { lib.QRcode_free(code); }
