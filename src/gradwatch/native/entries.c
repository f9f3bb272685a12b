/* Entry points that are not of one framework, and those for TensorFlow's XLA. */
#include "sweep.h"

/* ---- version and processor --------------------------------------------------------- */

GW_EXPORT int32_t gw_version(void) { return GW_VERSION; }

/* Returns the level of the x86-64 architecture that this processor and its operating
 * system support: 3 (AVX2, FMA, F16C, BMI), 4 (AVX-512), or 1. 0 on other processors.
 * The loader asks the baseline build, and then loads the build for the level. */
#if defined(__x86_64__) || defined(_M_X64)
#include <cpuid.h>

static int has(uint32_t bits, uint32_t wanted) { return (bits & wanted) == wanted; }

GW_EXPORT int32_t gw_level(void)
{
    uint32_t a, b, c, d, saved_low, saved_high, extended;
    if (!__get_cpuid(1, &a, &b, &c, &d)) return 1;
    /* FMA, SSE4.1, SSE4.2, MOVBE, POPCNT, XSAVE in use, AVX, F16C */
    if (!has(c, 1u << 12 | 1u << 19 | 1u << 20 | 1u << 22 | 1u << 23 | 1u << 27 | 1u << 28 | 1u << 29))
        return 1;
    /* The operating system must save the wide registers, too (XCR0). */
    __asm__ volatile("xgetbv" : "=a"(saved_low), "=d"(saved_high) : "c"(0));
    if (!has(saved_low, 0x6)) return 1;
    if (!__get_cpuid(0x80000001u, &a, &b, &extended, &d)) return 1;
    if (!has(extended, 1u << 5)) return 1; /* LZCNT */
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return 1;
    if (!has(b, 1u << 3 | 1u << 5 | 1u << 8)) return 1; /* BMI1, AVX2, BMI2 */
    /* AVX-512 F, DQ, CD, BW, VL; opmask and upper registers saved */
    if (has(b, 1u << 16 | 1u << 17 | 1u << 28 | 1u << 30 | 1u << 31) && has(saved_low, 0xe6))
        return 4;
    return 3;
}
#else
GW_EXPORT int32_t gw_level(void) { return 0; }
#endif

/* ---- TensorFlow: custom calls of XLA with the original ABI ------------------------- */

/* Such a function gets bare addresses: `in[0]` is the table that says how many tensors
 * follow and what they are, int64 [count, size of each, type of each]. */
static int64_t table_count(const void *table)
{
    int64_t count;
    memcpy(&count, table, sizeof count);
    return count;
}

static struct gw_tensor table_tensor(const void *table, const void **tensors, int64_t index)
{
    int64_t count = table_count(table), size, type;
    const unsigned char *numbers = table;
    memcpy(&size, numbers + 8 * (1 + index), sizeof size);
    memcpy(&type, numbers + 8 * (1 + count + index), sizeof type);
    struct gw_tensor tensor = {tensors[index], size, (int32_t)type};
    return tensor;
}

/* in: table, float64 [scale, histograms flag], tensors.
 * out: float64 [count, 11 + 128]; the counts are zero where none are wanted. */
GW_EXPORT void gw_xla_measure(void *out, const void **in)
{
    double controls[2], *row = out;
    int64_t count = table_count(in[0]);
    uint32_t saved = gw_environment_enter();
    memcpy(controls, in[1], sizeof controls);
    for (int64_t i = 0; i < count; i++, row += GW_COLUMNS + GW_BUCKETS) {
        struct gw_tensor tensor = table_tensor(in[0], in + 2, i);
        gw_measure_one(&tensor, controls[0], row);
        if (controls[1] != 0)
            gw_count_one(&tensor, controls[0], row + GW_COLUMNS);
        else
            memset(row + GW_COLUMNS, 0, GW_BUCKETS * sizeof *row);
    }
    gw_environment_leave(saved);
}

/* in: table, tensors. out: uint8 [gw_sample_bytes]. */
GW_EXPORT void gw_xla_sample(void *out, const void **in)
{
    unsigned char *to = out;
    int64_t count = table_count(in[0]);
    for (int64_t i = 0; i < count; i++) {
        struct gw_tensor tensor = table_tensor(in[0], in + 1, i);
        gw_sample_one(&tensor, to);
        to += gw_sample_bytes_one(tensor.size, tensor.type);
    }
}

/* in: table, uint8 sample, tensors. out: float64 [count, 4]. */
GW_EXPORT void gw_xla_moves(void *out, const void **in)
{
    const unsigned char *sample = in[1];
    double *row = out;
    int64_t count = table_count(in[0]);
    uint32_t saved = gw_environment_enter();
    for (int64_t i = 0; i < count; i++, row += GW_MOVES) {
        struct gw_tensor after = table_tensor(in[0], in + 2, i);
        gw_moves_one(&after, sample, row);
        sample += gw_sample_bytes_one(after.size, after.type);
    }
    gw_environment_leave(saved);
}

/* in: table, tensors. out: float64 [count]. */
GW_EXPORT void gw_xla_norms(void *out, const void **in)
{
    double *norms = out;
    int64_t count = table_count(in[0]);
    uint32_t saved = gw_environment_enter();
    for (int64_t i = 0; i < count; i++) {
        struct gw_tensor tensor = table_tensor(in[0], in + 1, i);
        norms[i] = gw_norm_one(&tensor);
    }
    gw_environment_leave(saved);
}
