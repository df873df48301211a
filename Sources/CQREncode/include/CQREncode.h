// What the gateway uses of libqrencode, loaded when it is first needed.
#ifndef CQRENCODE_H
#define CQRENCODE_H

#include <qrencode.h>

// A QR code of the text with error correction of level M, in the smallest version that holds it; NULL if none does,
// or if libqrencode is not there, which standard error says.
QRcode *cqrencode_text(const char *text);
void cqrencode_free(QRcode *code);

#endif
