/* Vectors of numbers as wide as a register of the processor that is compiled for.
 *
 * Vector types are an extension that gcc and clang share: `a + b` adds lane by lane on
 * every processor, and `a < b` gives lanes of all ones or zeros. Loops that the compiler
 * had to vectorise by itself came out up to three times slower with one of the two.
 */
#ifndef GRADWATCH_LANES_H
#define GRADWATCH_LANES_H

#include <stdint.h>
#include <string.h>

#if defined(__x86_64__) || defined(_M_X64)
#include <immintrin.h>
#endif

#if defined(__AVX512F__)
enum { REGISTER = 64, VECTORS = 1 };
#elif defined(__AVX2__)
enum { REGISTER = 32, VECTORS = 2 };
#elif defined(__aarch64__)
enum { REGISTER = 16, VECTORS = 2 };
#else
enum { REGISTER = 16, VECTORS = 1 };
#endif
/* VECTORS independent vectors are added up side by side, so that one addition need not
 * wait for the one before it. More do not fit into the registers (measured). */

enum {
    WIDTH = REGISTER / 4,      /* float32 in a vector */
    WIDE_WIDTH = REGISTER / 8, /* float64 in a vector */
};

typedef float floats __attribute__((vector_size(REGISTER)));
typedef double doubles __attribute__((vector_size(REGISTER)));
typedef float half_floats __attribute__((vector_size(REGISTER / 2)));
typedef int32_t ints __attribute__((vector_size(REGISTER)));
typedef int64_t longs __attribute__((vector_size(REGISTER)));

/* Loads need no alignment. */
static inline floats load_floats(const void *from)
{
    floats result;
    memcpy(&result, from, sizeof result);
    return result;
}

static inline doubles load_doubles(const void *from)
{
    doubles result;
    memcpy(&result, from, sizeof result);
    return result;
}

static inline floats magnitudes(floats values)
{
    return (floats)((ints)values & ((ints){0} + INT32_MAX));
}

static inline doubles wide_magnitudes(doubles values)
{
    return (doubles)((longs)values & ((longs){0} + INT64_MAX));
}

/* Lane by lane, the smaller and the larger of two. A lane of `values` that is NaN leaves
 * the lane of `so_far` as it is. The instruction that does it has a name of its own for
 * each width, and a compiler does not always find it. */
#define PICK(type, mask_type, mask, yes, no) \
    ((type)(((mask_type)(yes) & (mask)) | ((mask_type)(no) & ~(mask))))
#if defined(__AVX512F__)
#define SMALLER(values, so_far) ((floats)_mm512_min_ps(values, so_far))
#define LARGER(values, so_far) ((floats)_mm512_max_ps(values, so_far))
#elif defined(__AVX2__)
#define SMALLER(values, so_far) ((floats)_mm256_min_ps(values, so_far))
#define LARGER(values, so_far) ((floats)_mm256_max_ps(values, so_far))
#elif defined(__x86_64__) || defined(_M_X64)
#define SMALLER(values, so_far) ((floats)_mm_min_ps(values, so_far))
#define LARGER(values, so_far) ((floats)_mm_max_ps(values, so_far))
#else
#define SMALLER(values, so_far) PICK(floats, ints, values < so_far, values, so_far)
#define LARGER(values, so_far) PICK(floats, ints, values > so_far, values, so_far)
#endif
#define WIDE_SMALLER(values, so_far) PICK(doubles, longs, values < so_far, values, so_far)
#define WIDE_LARGER(values, so_far) PICK(doubles, longs, values > so_far, values, so_far)

/* Adds lanes of float32 to lanes of float64; there are two vectors of these for one of
 * the former. */
static inline void widen_sums(doubles *sums, const floats *lanes)
{
    for (int j = 0; j < 2 * VECTORS; j++) {
        half_floats half;
        memcpy(&half, (const char *)lanes + (size_t)j * sizeof half, sizeof half);
        sums[j] += __builtin_convertvector(half, doubles);
    }
}

/* Sum over all lanes of `count` vectors, by halves: a chain of additions, each waiting
 * for the one before it, would take as long as a quarter of a block. */
static inline double add_lanes(const doubles *vectors, int count)
{
    doubles sum = vectors[0];
    double lanes[WIDE_WIDTH];
    for (int j = 1; j < count; j++) sum += vectors[j];
    memcpy(lanes, &sum, sizeof lanes);
    for (int half = WIDE_WIDTH / 2; half > 0; half /= 2)
        for (int k = 0; k < half; k++) lanes[k] += lanes[k + half];
    return lanes[0];
}

#endif
