/* The sweep: one read of a tensor gives one row of finished numbers.
 *
 * What happens, in order. A tensor is cut into blocks of GW_BLOCK elements. A whole
 * block of float32 (or of a narrower type, widened first) is added up in float32 lanes,
 * which is as fast as the memory delivers it. A block for which that is not good enough
 * is still in the cache and is measured again, in double and in several passes:
 *   - it holds a NaN or an infinity, which are counted and left out of the sums;
 *   - its sums leave the range in which float32 keeps its digits;
 *   - its spread is small beside its mean, so that "mean of squares less square of
 *     mean" would lose digits.
 * The last, incomplete block and every float64 block take the double way at once, so a
 * small tensor is always measured in double. The parts are combined in double with the
 * formula of Chan, Golub and LeVeque (1983, eq. 2.1), and then finished into a row.
 *
 * Accuracy: extremes and counts are exact. A lane adds up 16 float32 numbers before its
 * sum goes into a double, so sum, absolute sum and squares are within 16 * 2 ** -24 =
 * 9.5e-7 of the sum of magnitudes in the worst case, whatever the number of elements
 * (1e-9 is usual). The double way is good to about 1e-14.
 */
#include "lanes.h"
#include "sweep.h"

#include <math.h>

enum {
    LANES = VECTORS * WIDTH,
    WIDE_LANES = VECTORS * WIDE_WIDTH,
    RUN = 16 * LANES, /* elements that are added up in float32 */
};

/* Half of the smallest float16: what is not larger rounds to zero there (FLOAT16_VANISHES
 * in summarise/_moments.py). */
#define FLOAT16_VANISHES 0x1p-25

/* Sums over some elements. The four sums are over the finite ones, divided by
 * 2 ** exponent (spread and squares: by 4 ** exponent). `vanishing` includes zeros. */
struct part {
    int64_t finite, zeros, vanishing, nan, posinf, neginf;
    double low, high, total, absolute, squares, spread;
    int32_t exponent;
};

static struct part empty_part(void)
{
    struct part part = {0};
    part.low = INFINITY;
    part.high = -INFINITY;
    part.exponent = GW_LOWEST;
    return part;
}

/* Adds the sums of `part` to those of `all`. */
static void combine(struct part *all, const struct part *part)
{
    all->nan += part->nan;
    all->posinf += part->posinf;
    all->neginf += part->neginf;
    if (part->finite == 0) return;
    /* Bring both to the larger exponent. They differ only where a float64 block had to
     * be rescaled. */
    int32_t top = all->exponent > part->exponent ? all->exponent : part->exponent;
    double old = gw_power((int64_t)all->exponent - top);
    double new = gw_power((int64_t)part->exponent - top);
    double before = (double)all->finite, after = (double)part->finite;
    if (all->finite > 0) {
        double apart = part->total * new / after - all->total * old / before;
        all->spread = all->spread * old * old + part->spread * new * new
            + apart * apart * (before * after / (before + after));
    } else {
        all->spread = part->spread * new * new;
    }
    all->total = all->total * old + part->total * new;
    all->absolute = all->absolute * old + part->absolute * new;
    all->squares = all->squares * old * old + part->squares * new * new;
    all->exponent = top;
    all->low = part->low < all->low ? part->low : all->low;
    all->high = part->high > all->high ? part->high : all->high;
    all->finite += part->finite;
    all->zeros += part->zeros;
    all->vanishing += part->vanishing;
}

/* ---- the double way ---------------------------------------------------------------- */

/* Moves the finite values to the front, counts the others, returns how many stay. */
static int64_t drop_nonfinite(double *values, int64_t count, struct part *part)
{
    int64_t kept = 0;
    for (int64_t i = 0; i < count; i++) {
        double value = values[i];
        if (value != value)
            part->nan++;
        else if (value > 0x1.fffffffffffffp+1023)
            part->posinf++;
        else if (value < -0x1.fffffffffffffp+1023)
            part->neginf++;
        else
            values[kept++] = value;
    }
    return kept;
}

/* Extremes, sums and vanishing elements of `values`. */
static struct part add_up(const double *values, int64_t count, double vanishes)
{
    struct part part = empty_part();
    doubles t[VECTORS] = {0}, a[VECTORS] = {0}, q[VECTORS] = {0}, low[VECTORS], high[VECTORS];
    longs vanishing[VECTORS] = {0};
    int64_t whole = count - count % WIDE_LANES, i = 0;
    for (int j = 0; j < VECTORS; j++)
        low[j] = (doubles){0} + INFINITY, high[j] = (doubles){0} - INFINITY;
    for (; i < whole; i += WIDE_LANES)
        for (int j = 0; j < VECTORS; j++) {
            doubles value = load_doubles(values + i + j * WIDE_WIDTH);
            doubles magnitude = wide_magnitudes(value);
            t[j] += value;
            a[j] += magnitude;
            q[j] += value * value;
            low[j] = WIDE_SMALLER(value, low[j]);
            high[j] = WIDE_LARGER(value, high[j]);
            vanishing[j] -= magnitude <= vanishes; /* true is -1 */
        }
    for (; i < count; i++) {
        part.total += values[i];
        part.absolute += fabs(values[i]);
        part.squares += values[i] * values[i];
        part.low = values[i] < part.low ? values[i] : part.low;
        part.high = values[i] > part.high ? values[i] : part.high;
        part.vanishing += fabs(values[i]) <= vanishes;
    }
    part.total += add_lanes(t, VECTORS);
    part.absolute += add_lanes(a, VECTORS);
    part.squares += add_lanes(q, VECTORS);
    for (int j = 0; j < VECTORS; j++)
        for (int k = 0; k < WIDE_WIDTH; k++) {
            part.low = low[j][k] < part.low ? low[j][k] : part.low;
            part.high = high[j][k] > part.high ? high[j][k] : part.high;
            part.vanishing += vanishing[j][k];
        }
    part.finite = count;
    return part;
}

/* Sum of squared distances from `mean`. */
static double spread_around(const double *values, int64_t count, double mean)
{
    doubles lanes[VECTORS] = {0};
    double spread = 0;
    int64_t whole = count - count % WIDE_LANES, i = 0;
    for (; i < whole; i += WIDE_LANES)
        for (int j = 0; j < VECTORS; j++) {
            doubles distance = load_doubles(values + i + j * WIDE_WIDTH) - mean;
            lanes[j] += distance * distance;
        }
    for (; i < count; i++) spread += (values[i] - mean) * (values[i] - mean);
    return spread + add_lanes(lanes, VECTORS);
}

/* Divides by a power of two, which changes no digit, so that the squares of the largest
 * values are safe, and adds up again. Only float64 is ever so large or so small. */
static void add_up_scaled(double *values, int64_t count, struct part *part)
{
    double magnitude = part->high > -part->low ? part->high : -part->low;
    if (magnitude == 0) return; /* only zeros: the exponent stays GW_LOWEST */
    int32_t exponent = (int32_t)(gw_bits(magnitude) >> 52) - 1023;
    /* 2 ** -exponent must itself be a number. What this leaves unscaled has room. */
    exponent = exponent < -1000 ? -1000 : exponent > 1000 ? 1000 : exponent;
    double factor = gw_power(-exponent);
    for (int64_t i = 0; i < count; i++) values[i] *= factor;
    struct part scaled = add_up(values, count, 0);
    part->exponent = exponent;
    part->total = scaled.total;
    part->absolute = scaled.absolute;
    part->squares = scaled.squares;
}

/* Measures up to GW_BLOCK elements in double. The passes run over a copy in the cache. */
static GW_NOINLINE struct part measure_carefully(
    const struct gw_tensor *tensor, int64_t start, int64_t count, double vanishes)
{
    double values[GW_BLOCK];
    gw_widen_double(tensor, start, count, values);
    struct part part = add_up(values, count, vanishes);
    if (!(part.absolute <= 0x1.fffffffffffffp+1023)) { /* NaN, infinity, or too large */
        struct part dropped = empty_part();
        count = drop_nonfinite(values, count, &dropped);
        part = add_up(values, count, vanishes);
        part.nan = dropped.nan, part.posinf = dropped.posinf, part.neginf = dropped.neginf;
        if (count == 0) return part;
    }
    if (part.vanishing > 0)
        for (int64_t i = 0; i < count; i++) part.zeros += values[i] == 0;
    if (part.squares >= 0x1p-800 && part.squares <= 0x1p+800)
        part.exponent = 0;
    else
        add_up_scaled(values, count, &part);
    part.spread = spread_around(values, count, part.total / (double)count);
    return part;
}

/* ---- the float32 way --------------------------------------------------------------- */

static int64_t count_zeros(const unsigned char *data)
{
    ints zeros = {0};
    int64_t sum = 0;
    for (int i = 0; i < GW_BLOCK; i += WIDTH) zeros -= load_floats(data + 4 * i) == 0;
    for (int k = 0; k < WIDTH; k++) sum += zeros[k];
    return sum;
}

/* Measures GW_BLOCK float32 numbers in one pass. Returns 0 where the double way is
 * needed; the part is then not to be used. A NaN changes neither extremes nor counts,
 * but shows in the sums. */
static GW_NOINLINE int measure_quickly(const unsigned char *data, float vanishes, struct part *part)
{
    doubles total[2 * VECTORS] = {0}, absolute[2 * VECTORS] = {0}, squares[2 * VECTORS] = {0};
    floats low[VECTORS], high[VECTORS];
    ints vanishing[VECTORS] = {0};
    for (int j = 0; j < VECTORS; j++) low[j] = high[j] = load_floats(data);
    for (int run = 0; run < GW_BLOCK; run += RUN) {
        floats t[VECTORS] = {0}, a[VECTORS] = {0}, q[VECTORS] = {0};
        for (int i = run; i < run + RUN; i += LANES)
            for (int j = 0; j < VECTORS; j++) {
                floats value = load_floats(data + 4 * (i + j * WIDTH));
                floats magnitude = magnitudes(value);
                t[j] += value;
                a[j] += magnitude;
                q[j] += value * value;
                low[j] = SMALLER(value, low[j]);
                high[j] = LARGER(value, high[j]);
                vanishing[j] -= magnitude <= vanishes; /* true is -1 */
            }
        widen_sums(total, t);
        widen_sums(absolute, a);
        widen_sums(squares, q);
    }
    *part = empty_part();
    part->finite = GW_BLOCK;
    part->exponent = 0;
    part->total = add_lanes(total, 2 * VECTORS);
    part->absolute = add_lanes(absolute, 2 * VECTORS);
    part->squares = add_lanes(squares, 2 * VECTORS);
    for (int j = 1; j < VECTORS; j++) {
        low[0] = SMALLER(low[j], low[0]);
        high[0] = LARGER(high[j], high[0]);
        vanishing[0] += vanishing[j];
    }
    float least = low[0][0], most = high[0][0];
    for (int k = 0; k < WIDTH; k++) {
        least = low[0][k] < least ? low[0][k] : least;
        most = high[0][k] > most ? high[0][k] : most;
        part->vanishing += vanishing[0][k];
    }
    part->low = least, part->high = most;
    /* Zeros are among the vanishing: most blocks have none and need no further look. */
    if (part->vanishing > 0) part->zeros = count_zeros(data);
    part->spread = part->squares - part->total * part->total / GW_BLOCK;
    /* The upper bounds are false for NaN and infinity, too. The lower one: squares that
     * were flushed to zero are below 2 ** -126 each, 2 ** -115 together; that is less
     * than 1e-7 of what remains if at least 2 ** -91 remains. Only zeros are fine, too;
     * the extremes tell, as sums of denormals are flushed. */
    int in_range = part->absolute <= 0x1p+100 && part->squares <= 0x1p+100
        && (part->squares >= 0x1p-91 || (least == 0 && most == 0));
    /* The squares are good to 20 bits, of which the spread may lose three. */
    return in_range && part->spread * 8 >= part->squares;
}

/* Returns the largest float32 that is not larger than `bound`. */
static float float_below(double bound)
{
    if (!(bound < 0x1.fffffep+127)) return 0x1.fffffep+127f;
    float result = (float)bound;
    uint32_t bits;
    if ((double)result <= bound) return result;
    memcpy(&bits, &result, sizeof bits);
    bits -= 1; /* `bound` is positive, and so was rounded up: the neighbour towards 0 */
    memcpy(&result, &bits, sizeof result);
    return result;
}

/* ---- one tensor -------------------------------------------------------------------- */

static struct part sweep(const struct gw_tensor *tensor, double vanishes)
{
    struct part all = empty_part();
    float narrow = float_below(vanishes), widened[GW_BLOCK];
    int64_t start = 0;
    gw_flush(tensor->type != GW_FLOAT64);
    for (; start + GW_BLOCK <= tensor->size; start += GW_BLOCK) {
        struct part part;
        if (tensor->type == GW_FLOAT64) {
            part = measure_carefully(tensor, start, GW_BLOCK, vanishes);
        } else {
            const unsigned char *data = tensor->data + 4 * start;
            if (tensor->type != GW_FLOAT32) {
                gw_widen_float(tensor, start, GW_BLOCK, widened);
                data = (const unsigned char *)widened;
            }
            if (!measure_quickly(data, narrow, &part))
                part = measure_carefully(tensor, start, GW_BLOCK, vanishes);
        }
        combine(&all, &part);
    }
    gw_flush(0);
    if (start < tensor->size) {
        struct part part = measure_carefully(tensor, start, tensor->size - start, vanishes);
        combine(&all, &part);
    }
    return all;
}

/* Finishes one row: norm, mean, std, min, max, mean_abs (NaN if nothing is finite),
 * zeros, underflow (shares of all elements: NaN if there are none), nan, posinf, neginf.
 * This is the order of `COLUMNS` in summarise/_columns.py. */
void gw_measure_one(const struct gw_tensor *tensor, double scale, double *row)
{
    struct part all = sweep(tensor, FLOAT16_VANISHES * scale);
    double size = (double)tensor->size, finite = (double)all.finite;
    if (all.finite == 0) {
        for (int column = 0; column < 6; column++) row[column] = NAN;
    } else {
        int constant = all.low == all.high; /* n * x / n may differ from x by rounding */
        double std = constant ? 0 : sqrt(all.spread / finite);
        row[0] = gw_scaled(sqrt(all.squares) / scale, all.exponent);
        row[1] = constant ? all.low / scale : gw_scaled(all.total / finite / scale, all.exponent);
        row[2] = gw_scaled(std / scale, all.exponent);
        row[3] = all.low / scale;
        row[4] = all.high / scale;
        row[5] = constant ? fabs(row[1]) : gw_scaled(all.absolute / finite / scale, all.exponent);
    }
    row[6] = (double)all.zeros / size;
    row[7] = (double)(all.vanishing - all.zeros) / size;
    row[8] = (double)all.nan;
    row[9] = (double)all.posinf;
    row[10] = (double)all.neginf;
}

/* Norm of all elements. The squares are added up in double, which has room for the
 * square of every float32; NaN and infinities propagate. */
double gw_norm_one(const struct gw_tensor *tensor)
{
    struct gw_squares all = {0, GW_LOWEST};
    double values[GW_BLOCK];
    for (int64_t start = 0; start < tensor->size; start += GW_BLOCK) {
        int64_t left = tensor->size - start, count = left < GW_BLOCK ? left : GW_BLOCK;
        gw_widen_double(tensor, start, count, values);
        all = gw_add_squares(all, gw_sum_squares(values, count));
    }
    return gw_norm(all);
}

/* ---- the interface for lists of tensors -------------------------------------------- */

GW_EXPORT void gw_measure(
    int64_t count, const int64_t *sizes, const int32_t *types, const void *const *tensors,
    double scale, int32_t histograms, double *rows, double *counts)
{
    uint32_t saved = gw_environment_enter();
    for (int64_t i = 0; i < count; i++) {
        struct gw_tensor tensor = gw_tensor_at(i, sizes, types, tensors);
        gw_measure_one(&tensor, scale, rows + i * GW_COLUMNS);
        if (histograms) gw_count_one(&tensor, scale, counts + i * GW_BUCKETS);
    }
    gw_environment_leave(saved);
}

GW_EXPORT void gw_norms(
    int64_t count, const int64_t *sizes, const int32_t *types, const void *const *tensors,
    double *norms)
{
    uint32_t saved = gw_environment_enter();
    for (int64_t i = 0; i < count; i++) {
        struct gw_tensor tensor = gw_tensor_at(i, sizes, types, tensors);
        norms[i] = gw_norm_one(&tensor);
    }
    gw_environment_leave(saved);
}
