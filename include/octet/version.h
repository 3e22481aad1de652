/* The version of the headers; octet_version() is the version of the library that was loaded. */
#ifndef OCTET_VERSION_H
#define OCTET_VERSION_H

#define OCTET_VERSION_MAJOR 0
#define OCTET_VERSION_MINOR 1
#define OCTET_VERSION_PATCH 0
#define OCTET_VERSION \
  (OCTET_VERSION_MAJOR * 10000 + OCTET_VERSION_MINOR * 100 + OCTET_VERSION_PATCH)

#endif
