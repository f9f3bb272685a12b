/* What is taken from a sample of a large tensor: histograms, and norms of weights and
 * of their updates.
 *
 * The sample of a tensor of more than GW_SAMPLE elements is GW_SAMPLE_BLOCKS blocks of
 * GW_SAMPLE_BLOCK neighbouring elements, evenly spread: the first starts at the first
 * element and the last ends at the last one. Blocks never overlap. The sample of a
 * smaller tensor is all of it.
 */
#include "lanes.h"
#include "sweep.h"

#include <math.h>

enum { LOWEST = -40, HIGHEST = 23, OCTAVES = HIGHEST - LOWEST + 1 };

int64_t gw_sample_size(int64_t size) { return size <= GW_SAMPLE ? size : GW_SAMPLE; }

/* Number of contiguous blocks of the sample, and where the block with `index` starts. */
static int64_t block_count(int64_t size)
{
    return size > GW_SAMPLE ? GW_SAMPLE_BLOCKS : (size + GW_SAMPLE_BLOCK - 1) / GW_SAMPLE_BLOCK;
}

static int64_t block_start(int64_t size, int64_t index)
{
    if (size <= GW_SAMPLE) return index * GW_SAMPLE_BLOCK;
    return index * (size - GW_SAMPLE_BLOCK) / (GW_SAMPLE_BLOCKS - 1);
}

static int64_t block_length(int64_t size, int64_t index)
{
    int64_t left = size - block_start(size, index);
    return left < GW_SAMPLE_BLOCK ? left : GW_SAMPLE_BLOCK;
}

/* ---- the histogram ----------------------------------------------------------------- */

/* Bucket of a number with this sign and exponent: buckets run along the number line. */
static int bucket(int negative, int64_t exponent)
{
    int octave = (int)((exponent < LOWEST ? LOWEST : exponent > HIGHEST ? HIGHEST : exponent) - LOWEST);
    return negative ? OCTAVES - 1 - octave : OCTAVES + octave;
}

/* Counts by division, element by element: right for every type and every scale. */
static void count_divided(const double *values, int64_t count, double scale, double *counts)
{
    for (int64_t i = 0; i < count; i++) {
        uint64_t whole = gw_bits(values[i]) << 1;
        if (whole == 0 || whole >= 0xffe0000000000000u) continue;
        /* The quotient may leave the range of numbers: exponent -1023 or 1024 is then as
         * good as any other beyond the outermost buckets. */
        int64_t exponent = (int64_t)((gw_bits(values[i] / scale) >> 52) & 2047) - 1023;
        counts[bucket(values[i] < 0, exponent)] += 1;
    }
}

/* Counts float32 numbers by the nine bits of sign and exponent. Four tables in turn:
 * neighbours often have the same exponent, and an increment that waits for the one
 * before it takes five cycles. */
static void count_bits(const float *values, int64_t count, uint32_t tables[4][512], int64_t zeros[2])
{
    uint32_t bits;
    int64_t i = 0;
    int32_t positive = 0, negative = 0;
    for (; i + 4 <= count; i += 4)
        for (int k = 0; k < 4; k++) {
            memcpy(&bits, values + i + k, sizeof bits);
            tables[k][bits >> 23]++;
        }
    for (; i < count; i++) {
        memcpy(&bits, values + i, sizeof bits);
        tables[0][bits >> 23]++;
    }
    /* Zeros share their exponent bits with denormals; a vectorised pass tells them apart. */
    for (i = 0; i < count; i++) {
        memcpy(&bits, values + i, sizeof bits);
        positive += bits == 0;
        negative += bits == 0x80000000u;
    }
    zeros[0] += positive;
    zeros[1] += negative;
}

/* Adds what `count_bits` counted; `shift` is the exponent of the scale. */
static void add_tables(uint32_t tables[4][512], const int64_t zeros[2], int64_t shift, double *counts)
{
    for (int index = 0; index < 512; index++) {
        int64_t sum = 0, exponent = index & 255, negative = index >> 8;
        if (exponent == 255) continue; /* NaN and infinities */
        for (int k = 0; k < 4; k++) sum += tables[k][index];
        if (exponent == 0) sum -= zeros[negative];
        counts[bucket((int)negative, exponent - 127 - shift)] += (double)sum;
    }
}

/* Counts the sample of one tensor into GW_BUCKETS buckets. */
void gw_count_one(const struct gw_tensor *tensor, double scale, double *counts)
{
    uint32_t tables[4][512];
    int64_t zeros[2] = {0, 0}, shift = (int64_t)((gw_bits(scale) >> 52) & 2047) - 1023;
    /* A scale that is a power of two only shifts exponents. Not below 2 ** -80: there,
     * denormals of float32 no longer all belong to the innermost buckets. For a small
     * tensor, clearing and adding up the tables would take longer than to divide. */
    int shifts = tensor->type != GW_FLOAT64 && scale == gw_power(shift) && shift >= -80
        && tensor->size > GW_SAMPLE_BLOCK;
    if (shifts) memset(tables, 0, sizeof tables);
    memset(counts, 0, GW_BUCKETS * sizeof *counts);
    for (int64_t index = 0; index < block_count(tensor->size); index++) {
        int64_t start = block_start(tensor->size, index);
        int64_t length = block_length(tensor->size, index);
        if (shifts) {
            float values[GW_SAMPLE_BLOCK];
            gw_widen_float(tensor, start, length, values);
            count_bits(values, length, tables, zeros);
        } else {
            double values[GW_SAMPLE_BLOCK];
            gw_widen_double(tensor, start, length, values);
            count_divided(values, length, scale, counts);
        }
    }
    if (shifts) add_tables(tables, zeros, shift, counts);
}

/* ---- the sample itself ------------------------------------------------------------- */

/* Bytes of the sample of one tensor, padded so that the next one is aligned. */
int64_t gw_sample_bytes_one(int64_t size, int32_t type)
{
    return (gw_sample_size(size) * gw_item_bytes(type) + 7) / 8 * 8;
}

void gw_sample_one(const struct gw_tensor *tensor, unsigned char *out)
{
    int64_t item = gw_item_bytes(tensor->type), used = gw_sample_size(tensor->size) * item;
    for (int64_t index = 0; index < block_count(tensor->size); index++) {
        int64_t bytes = block_length(tensor->size, index) * item;
        memcpy(out, tensor->data + block_start(tensor->size, index) * item, (size_t)bytes);
        out += bytes;
    }
    memset(out, 0, (size_t)(gw_sample_bytes_one(tensor->size, tensor->type) - used));
}

/* ---- weights and updates ----------------------------------------------------------- */

/* Sum of squares of after - before. Two float64 of opposite sign may be further apart
 * than any number: then half of the distance is squared instead. */
static struct gw_squares squares_between(const double *before, const double *after, int64_t count)
{
    double moves[GW_SAMPLE_BLOCK];
    int overflows = 0;
    for (int64_t i = 0; i < count; i++) moves[i] = after[i] - before[i];
    struct gw_squares result = gw_sum_squares(moves, count);
    if (result.sum <= 0x1.fffffffffffffp+1023) return result;
    for (int64_t i = 0; i < count; i++) {
        overflows |= fabs(moves[i]) == INFINITY && fabs(after[i]) < INFINITY && fabs(before[i]) < INFINITY;
        moves[i] = after[i] / 2 - before[i] / 2;
    }
    if (!overflows) return result;
    result = gw_sum_squares(moves, count);
    result.exponent += 1;
    return result;
}

/* Sums of squares of `before` and of after - before, in one pass. Neither squares of
 * float32 nor differences of them leave the range of float64: no care is needed. */
static void float_squares(
    const void *before, const void *after, int64_t count, double *weights, double *updates)
{
    const unsigned char *olds = before, *news = after; /* of any alignment */
    const int64_t item = sizeof(float);
    enum { UNROLLED = 4, STRIDE = UNROLLED * WIDE_WIDTH };
    doubles of_weights[UNROLLED] = {0}, of_updates[UNROLLED] = {0};
    int64_t i = 0;
    for (; i + STRIDE <= count; i += STRIDE)
        for (int j = 0; j < UNROLLED; j++) {
            half_floats old, new;
            memcpy(&old, olds + (i + j * WIDE_WIDTH) * item, sizeof old);
            memcpy(&new, news + (i + j * WIDE_WIDTH) * item, sizeof new);
            doubles weight = __builtin_convertvector(old, doubles);
            doubles move = __builtin_convertvector(new, doubles) - weight;
            of_weights[j] += weight * weight;
            of_updates[j] += move * move;
        }
    *weights = add_lanes(of_weights, UNROLLED);
    *updates = add_lanes(of_updates, UNROLLED);
    for (; i < count; i++) {
        float old, new;
        memcpy(&old, olds + i * item, sizeof old);
        memcpy(&new, news + i * item, sizeof new);
        double weight = old, move = new - weight;
        *weights += weight * weight;
        *updates += move * move;
    }
}

/* Writes a norm and its standard error, from the squares of each block of the sample.
 *
 * The blocks of a large tensor are a sample of `blocks` clusters out of size /
 * GW_SAMPLE_BLOCK: the sum over the tensor is estimated as size / GW_SAMPLE times the
 * sum over the sample, with the variance between clusters and the finite population
 * correction (Cochran 1977, section 9A.2). The standard error of the norm follows by
 * the delta method. */
static void estimate(const struct gw_squares *squares, int64_t blocks, int64_t size, double *out)
{
    struct gw_squares all = {0, GW_LOWEST};
    for (int64_t i = 0; i < blocks; i++) all = gw_add_squares(all, squares[i]);
    out[0] = gw_norm(all);
    out[1] = 0;
    if (size <= GW_SAMPLE || all.sum == 0) return;
    double growth = (double)size / GW_SAMPLE, mean = all.sum / (double)blocks, spread = 0;
    for (int64_t i = 0; i < blocks; i++) {
        double away = squares[i].sum * gw_power(2 * ((int64_t)squares[i].exponent - all.exponent)) - mean;
        spread += away * away;
    }
    double variance = spread / (double)(blocks - 1) * (double)blocks * (1 - 1 / growth);
    all.sum *= growth;
    out[0] = gw_norm(all);
    out[1] = gw_scaled(growth * sqrt(variance) / (2 * sqrt(all.sum)), all.exponent);
}

/* Writes weight_norm, its standard error, update_norm and its standard error. */
void gw_moves_one(const struct gw_tensor *after, const unsigned char *sample, double *row)
{
    struct gw_tensor before = {sample, gw_sample_size(after->size), after->type};
    struct gw_squares weights[GW_SAMPLE_BLOCKS] = {{0}}, updates[GW_SAMPLE_BLOCKS] = {{0}};
    int64_t blocks = block_count(after->size), taken = 0;
    for (int64_t index = 0; index < blocks; index++) {
        int64_t start = block_start(after->size, index);
        int64_t length = block_length(after->size, index);
        if (after->type == GW_FLOAT64) {
            double old[GW_SAMPLE_BLOCK], new[GW_SAMPLE_BLOCK];
            gw_widen_double(&before, taken, length, old);
            gw_widen_double(after, start, length, new);
            weights[index] = gw_sum_squares(old, length);
            updates[index] = squares_between(old, new, length);
        } else {
            float old[GW_SAMPLE_BLOCK], new[GW_SAMPLE_BLOCK];
            const void *from = before.data + taken * (int64_t)sizeof *old;
            const void *to = after->data + start * (int64_t)sizeof *new;
            if (after->type != GW_FLOAT32) {
                gw_widen_float(&before, taken, length, old);
                gw_widen_float(after, start, length, new);
                from = old;
                to = new;
            }
            float_squares(from, to, length, &weights[index].sum, &updates[index].sum);
        }
        taken += length;
    }
    estimate(weights, blocks, after->size, row);
    estimate(updates, blocks, after->size, row + 2);
}

/* ---- the interface for lists of tensors -------------------------------------------- */

GW_EXPORT int64_t gw_sample_bytes(int64_t count, const int64_t *sizes, const int32_t *types)
{
    int64_t bytes = 0;
    for (int64_t i = 0; i < count; i++) bytes += gw_sample_bytes_one(sizes[i], types[i]);
    return bytes;
}

GW_EXPORT void gw_sample(
    int64_t count, const int64_t *sizes, const int32_t *types, const void *const *tensors,
    void *out)
{
    unsigned char *to = out;
    for (int64_t i = 0; i < count; i++) {
        struct gw_tensor tensor = gw_tensor_at(i, sizes, types, tensors);
        gw_sample_one(&tensor, to);
        to += gw_sample_bytes_one(sizes[i], types[i]);
    }
}

GW_EXPORT void gw_moves(
    int64_t count, const int64_t *sizes, const int32_t *types, const void *sample,
    const void *const *tensors, double *rows)
{
    const unsigned char *from = sample;
    uint32_t saved = gw_environment_enter();
    for (int64_t i = 0; i < count; i++) {
        struct gw_tensor after = gw_tensor_at(i, sizes, types, tensors);
        gw_moves_one(&after, from, rows + i * GW_MOVES);
        from += gw_sample_bytes_one(sizes[i], types[i]);
    }
    gw_environment_leave(saved);
}
