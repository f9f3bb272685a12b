/* What the files of the native sweep share: types, constants and small helpers.
 *
 * The library is plain C11 without allocation and without global state, so any number
 * of threads may call it at once. A tensor is an address, a number of elements and one
 * of the element types below; it is read and never written, and nothing outside its
 * elements is read. An address need not be aligned: elements are loaded with memcpy,
 * which compiles to an ordinary load.
 */
#ifndef GRADWATCH_SWEEP_H
#define GRADWATCH_SWEEP_H

#include <stdint.h>
#include <string.h>

#if defined(_WIN32)
#define GW_EXPORT __declspec(dllexport)
#else
#define GW_EXPORT __attribute__((visibility("default")))
#endif
#define GW_NOINLINE __attribute__((noinline))

/* Number of the interface: the loader refuses a library that gives another one. */
enum { GW_VERSION = 2 };

/* Element types; `TYPES` in _library.py holds the same numbers. */
enum { GW_FLOAT32, GW_FLOAT64, GW_FLOAT16, GW_BFLOAT16 };

enum {
    GW_COLUMNS = 11,         /* numbers in a row, see `gw_measure` */
    GW_BUCKETS = 128,        /* counts in a histogram */
    GW_MOVES = 4,            /* numbers in a row of `gw_moves` */
    GW_BLOCK = 2048,         /* elements measured together: they stay in the L1 cache */
    GW_SAMPLE_BLOCKS = 64,   /* a sample of a large tensor is this many blocks ... */
    GW_SAMPLE_BLOCK = 1024,  /* ... of this many neighbouring elements */
    GW_SAMPLE = GW_SAMPLE_BLOCKS * GW_SAMPLE_BLOCK, /* tensors up to this: all of it */
};

/* One tensor in memory. */
struct gw_tensor {
    const unsigned char *data;
    int64_t size;
    int32_t type;
};

/* A sum of squares, divided by 4 ** exponent so that it neither over- nor underflows. */
struct gw_squares {
    double sum;
    int32_t exponent;
};

/* Lowest exponent: stands for "only zeros", so that zeros never decide a common scale. */
enum { GW_LOWEST = -1100 };

static inline int64_t gw_item_bytes(int32_t type)
{
    return type == GW_FLOAT64 ? 8 : type == GW_FLOAT32 ? 4 : 2;
}

static inline struct gw_tensor gw_tensor_at(
    int64_t index, const int64_t *sizes, const int32_t *types, const void *const *tensors)
{
    struct gw_tensor tensor = {tensors[index], sizes[index], types[index]};
    return tensor;
}

static inline uint64_t gw_bits(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* Returns 2 ** exponent: 0 below the normal numbers, infinity above them. */
static inline double gw_power(int64_t exponent)
{
    uint64_t bits = exponent < -1022 ? 0 : exponent > 1023 ? 2047 : (uint64_t)(exponent + 1023);
    double power;
    bits <<= 52;
    memcpy(&power, &bits, sizeof power);
    return power;
}

/* Returns value * 2 ** exponent, rounded once; |exponent| may be up to 2000. */
static inline double gw_scaled(double value, int32_t exponent)
{
    return value * gw_power(exponent / 2) * gw_power(exponent - exponent / 2);
}

/* The floating-point environment of the calling thread (floats.c). TensorFlow and XLA
 * run their threads with denormals flushed to zero, which would count a denormal as a
 * zero: every exported function works in the default environment and restores the
 * caller's, sticky exception flags included. `gw_flush` makes results (not operands)
 * flush to zero while float32 blocks are added up: a denormal result can take a hundred
 * times as long, and a block in which one could matter is measured again in double. */
uint32_t gw_environment_enter(void);
void gw_environment_leave(uint32_t saved);
void gw_flush(int on);

/* Widening (floats.c): `count` elements from number `start` on. */
void gw_widen_float(const struct gw_tensor *tensor, int64_t start, int64_t count, float *out);
void gw_widen_double(const struct gw_tensor *tensor, int64_t start, int64_t count, double *out);

/* Sum of squares of all of `values`; NaN and infinities propagate (floats.c). */
struct gw_squares gw_sum_squares(const double *values, int64_t count);
struct gw_squares gw_add_squares(struct gw_squares left, struct gw_squares right);
double gw_norm(struct gw_squares squares);

/* One tensor at a time; the entry points for lists and frameworks loop over these. They
 * must be called between `gw_environment_enter` and `gw_environment_leave`. */
void gw_measure_one(const struct gw_tensor *tensor, double scale, double *row);
void gw_count_one(const struct gw_tensor *tensor, double scale, double *counts);
double gw_norm_one(const struct gw_tensor *tensor);
int64_t gw_sample_size(int64_t size);
int64_t gw_sample_bytes_one(int64_t size, int32_t type);
void gw_sample_one(const struct gw_tensor *tensor, unsigned char *out);
void gw_moves_one(const struct gw_tensor *after, const unsigned char *sample, double *row);

#endif
