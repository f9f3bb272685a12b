/* The part of XLA's foreign function interface that the handlers use.
 *
 * XLA documents this binary interface as stable within its major version 0: structures
 * grow at the end only. Declared here are the structures that a handler reads, up to the
 * last member that it reads; tests/native compares sizes and offsets with the header
 * that jaxlib ships.
 */
#ifndef GRADWATCH_XLA_FFI_H
#define GRADWATCH_XLA_FFI_H

#include <stddef.h>
#include <stdint.h>

enum { FFI_MAJOR = 0, FFI_MINOR = 1 };  /* oldest version that has all of this */
enum { FFI_EXTENSION_METADATA = 1 };
enum { FFI_STAGE_EXECUTE = 3 };
enum { FFI_KIND_BUFFER = 1 };
enum { FFI_INVALID_ARGUMENT = 3 };

/* Element types, numbered as in XLA's PrimitiveType. */
enum {
    FFI_UINT8 = 6,
    FFI_UINT32 = 8,
    FFI_FLOAT16 = 10,
    FFI_FLOAT32 = 11,
    FFI_FLOAT64 = 12,
    FFI_BFLOAT16 = 16,
};

struct ffi_extension {
    size_t struct_size;
    int32_t type;
    struct ffi_extension *next;
};

struct ffi_version {
    size_t struct_size;
    struct ffi_extension *extensions;
    int32_t major, minor;
};

/* What XLA asks a handler for when it is registered; filled in by the handler. */
struct ffi_metadata {
    size_t struct_size;
    struct ffi_version version;
    uint32_t traits;
};

struct ffi_metadata_extension {
    struct ffi_extension base;
    struct ffi_metadata *metadata;
};

struct ffi_error; /* made and owned by XLA */

struct ffi_error_request {
    size_t struct_size;
    struct ffi_extension *extensions;
    const char *message;
    int32_t code;
};

/* The functions that XLA offers; only the first one is used. */
struct ffi_api {
    size_t struct_size;
    struct ffi_extension *extensions;
    struct ffi_version version;
    const void *internal;
    struct ffi_error *(*make_error)(struct ffi_error_request *);
};

struct ffi_buffer {
    size_t struct_size;
    struct ffi_extension *extensions;
    int32_t type;
    void *data;
    int64_t rank;
    int64_t *lengths;
};

/* Arguments, and likewise results. */
struct ffi_values {
    size_t struct_size;
    struct ffi_extension *extensions;
    int64_t count;
    int32_t *kinds;
    void **values;
};

struct ffi_call {
    size_t struct_size;
    struct ffi_extension *extensions;
    const struct ffi_api *api;
    void *context;
    int32_t stage;
    struct ffi_values arguments;
    struct ffi_values results;
};

#endif
