/* Floating-point ground work: the environment, widening, and sums of squares. */
#include "lanes.h"
#include "sweep.h"

#include <math.h>

/* ---- the environment --------------------------------------------------------------- */

#if defined(__x86_64__) || defined(_M_X64)
#include <xmmintrin.h>

enum { X86_DEFAULT = 0x1f80, X86_FLUSH_RESULTS = 0x8000 };

uint32_t gw_environment_enter(void)
{
    uint32_t saved = _mm_getcsr();
    _mm_setcsr(X86_DEFAULT);
    return saved;
}

void gw_environment_leave(uint32_t saved) { _mm_setcsr(saved); }

void gw_flush(int on) { _mm_setcsr(on ? X86_DEFAULT | X86_FLUSH_RESULTS : X86_DEFAULT); }

#elif defined(__aarch64__)

/* Here one bit flushes operands and results alike, so it stays off throughout; these
 * processors take denormals at full speed. Status flags live in a register of their
 * own (FPSR), which nothing reads. */
uint32_t gw_environment_enter(void)
{
    uint64_t saved;
    __asm__ volatile("mrs %0, fpcr" : "=r"(saved));
    __asm__ volatile("msr fpcr, %0" : : "r"((uint64_t)0));
    return (uint32_t)saved;
}

void gw_environment_leave(uint32_t saved)
{
    __asm__ volatile("msr fpcr, %0" : : "r"((uint64_t)saved));
}

void gw_flush(int on) { (void)on; }

#else

uint32_t gw_environment_enter(void) { return 0; }
void gw_environment_leave(uint32_t saved) { (void)saved; }
void gw_flush(int on) { (void)on; }

#endif

/* ---- widening ---------------------------------------------------------------------- */

/* Widens float16 by its bits, without a branch, so that the loop vectorises on every
 * processor. The exponent moves from bias 15 to bias 127; infinities and NaN get the
 * largest exponent; a denormal (exponent 0) first becomes 2 ** -14 plus its value, and
 * the subtraction then leaves the value exactly. */
static inline float widen_half(uint16_t half)
{
    uint32_t bits = (uint32_t)(half & 0x7fff) << 13;
    uint32_t exponent = bits & 0x0f800000u;
    uint32_t normal = bits + (112u << 23);
    uint32_t special = bits + (224u << 23);
    uint32_t lifted = bits + (113u << 23);
    float number;
    memcpy(&number, &lifted, sizeof number);
    number -= 0x1p-14f;
    uint32_t denormal;
    memcpy(&denormal, &number, sizeof denormal);
    bits = exponent == 0 ? denormal : exponent == 0x0f800000u ? special : normal;
    bits |= (uint32_t)(half & 0x8000) << 16;
    memcpy(&number, &bits, sizeof number);
    return number;
}

static inline float widen_brain(uint16_t brain)
{
    uint32_t bits = (uint32_t)brain << 16;
    float number;
    memcpy(&number, &bits, sizeof number);
    return number;
}

void gw_widen_float(const struct gw_tensor *tensor, int64_t start, int64_t count, float *restrict out)
{
    const unsigned char *data = tensor->data + start * gw_item_bytes(tensor->type);
    uint16_t narrow;
    if (tensor->type == GW_FLOAT32) {
        memcpy(out, data, (size_t)count * sizeof *out);
    } else if (tensor->type == GW_FLOAT16) {
        int64_t i = 0;
#if defined(__F16C__)
        for (; i + 8 <= count; i += 8) { /* the processor's own conversion */
            __m128i halves;
            memcpy(&halves, data + 2 * i, sizeof halves);
            _mm256_storeu_ps(out + i, _mm256_cvtph_ps(halves));
        }
#endif
        for (; i < count; i++) {
            memcpy(&narrow, data + 2 * i, sizeof narrow);
            out[i] = widen_half(narrow);
        }
    } else {
        for (int64_t i = 0; i < count; i++) {
            memcpy(&narrow, data + 2 * i, sizeof narrow);
            out[i] = widen_brain(narrow);
        }
    }
}

void gw_widen_double(const struct gw_tensor *tensor, int64_t start, int64_t count, double *restrict out)
{
    const unsigned char *data = tensor->data + start * gw_item_bytes(tensor->type);
    float numbers[GW_BLOCK];
    if (tensor->type == GW_FLOAT64) {
        memcpy(out, data, (size_t)count * sizeof *out);
        return;
    }
    while (count > 0) {
        int64_t some = count < GW_BLOCK ? count : GW_BLOCK;
        gw_widen_float(tensor, start, some, numbers);
        for (int64_t i = 0; i < some; i++) out[i] = numbers[i];
        start += some, out += some, count -= some;
    }
}

/* ---- sums of squares --------------------------------------------------------------- */

/* Sum of (values * factor) ** 2. */
static double plain_squares(const double *values, int64_t count, double factor)
{
    enum { WIDE_LANES = VECTORS * WIDE_WIDTH };
    doubles lanes[VECTORS] = {0};
    double sum = 0;
    int64_t whole = count - count % WIDE_LANES, i = 0;
    for (; i < whole; i += WIDE_LANES)
        for (int j = 0; j < VECTORS; j++) {
            doubles value = load_doubles(values + i + j * WIDE_WIDTH) * factor;
            lanes[j] += value * value;
        }
    for (; i < count; i++) sum += values[i] * factor * (values[i] * factor);
    return sum + add_lanes(lanes, VECTORS);
}

/* Largest magnitude; NaN if there is one. */
static double largest(const double *values, int64_t count)
{
    double most = 0;
    for (int64_t i = 0; i < count; i++) {
        double magnitude = fabs(values[i]);
        if (!(magnitude <= most)) most = magnitude; /* also takes a NaN ... */
        if (magnitude != magnitude) break;          /* ... and then keeps it */
    }
    return most;
}

struct gw_squares gw_sum_squares(const double *values, int64_t count)
{
    struct gw_squares result = {plain_squares(values, count, 1), 0};
    /* Within these bounds nothing overflowed, and squares that underflowed are too small
     * to matter. float32 and narrower never leave them, but for a sum of zeros. */
    if (result.sum >= 0x1p-800 && result.sum <= 0x1p+1000) return result;
    double most = largest(values, count);
    if (most == 0) {
        result.exponent = GW_LOWEST;
    } else if (most <= 0x1.fffffffffffffp+1023) {
        int64_t exponent = (int64_t)(gw_bits(most) >> 52) - 1023;
        if (exponent < -1000) exponent = -1000; /* 2 ** -exponent must be a number, too */
        if (exponent > 1000) exponent = 1000;
        result.exponent = (int32_t)exponent;
        result.sum = plain_squares(values, count, gw_power(-exponent));
    } else {
        /* The highest exponent, so that no other sum ever rescales this one to 0 * inf. */
        result.sum = most;
        result.exponent = 1000;
    }
    return result;
}

struct gw_squares gw_add_squares(struct gw_squares left, struct gw_squares right)
{
    if (left.exponent < right.exponent) {
        struct gw_squares other = left;
        left = right, right = other;
    }
    left.sum += right.sum * gw_power(2 * ((int64_t)right.exponent - left.exponent));
    return left;
}

double gw_norm(struct gw_squares squares)
{
    return gw_scaled(sqrt(squares.sum), squares.exponent);
}
