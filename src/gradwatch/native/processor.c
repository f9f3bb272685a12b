/* The version of the interface, and the level of the processor. */
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
