/* Marks what liboctet.so exports. Everything else in the library is hidden. */
#ifndef OCTET_EXPORT_H
#define OCTET_EXPORT_H

#define OCTET_API __attribute__((visibility("default")))

#endif
