/* Handlers for JAX and TensorFlow: the sweep behind XLA's typed foreign function
 * interface.
 *
 * Sizes and types come with the call. JAX has no float64 unless it is asked to, so
 * float64 results leave as pairs of uint32 (their bits, the lower half first). What does
 * not fit (an element type that cannot be measured, a result of another size) is an
 * error with a sentence: nothing is read or written then.
 */
#include "sweep.h"
#include "xla_ffi.h"

typedef struct ffi_error *ffi_result;

/* ---- the call ---------------------------------------------------------------------- */

static ffi_result refuse(const struct ffi_call *call, const char *sentence)
{
    struct ffi_error_request request = {0};
    request.struct_size = offsetof(struct ffi_error_request, code) + sizeof request.code;
    request.message = sentence;
    request.code = FFI_INVALID_ARGUMENT;
    return call->api->make_error(&request);
}

/* Answers the question for the version, which comes as an extension of a call without
 * arguments. The members used here are those of every 0.x, so the answer is the version
 * of the XLA that asks; one with another major version gets ours, and refuses it. */
static int answer_metadata(struct ffi_call *call)
{
    struct ffi_extension *extension = call->extensions;
    for (; extension != NULL; extension = extension->next)
        if (extension->type == FFI_EXTENSION_METADATA) break;
    if (extension == NULL) return 0;
    struct ffi_metadata *metadata = ((struct ffi_metadata_extension *)extension)->metadata;
    int known = call->api != NULL && call->api->version.major == FFI_MAJOR;
    metadata->version.major = FFI_MAJOR;
    metadata->version.minor = known ? call->api->version.minor : FFI_MINOR;
    metadata->traits = 0;
    return 1;
}

/* Whether there is nothing to do: the question for the version, or a stage before the
 * execution, in which buffers hold nothing yet. */
static int is_formality(struct ffi_call *call)
{
    return answer_metadata(call) || call->stage != FFI_STAGE_EXECUTE;
}

static const struct ffi_buffer *buffer_at(const struct ffi_values *values, int64_t index)
{
    if (index >= values->count || values->kinds[index] != FFI_KIND_BUFFER) return NULL;
    return values->values[index];
}

static int64_t elements(const struct ffi_buffer *buffer)
{
    int64_t count = 1;
    for (int64_t axis = 0; axis < buffer->rank; axis++) count *= buffer->lengths[axis];
    return count;
}

/* Whether a value is a buffer of this type with this number of elements. */
static int is_buffer(const struct ffi_values *values, int64_t index, int32_t type, int64_t count)
{
    const struct ffi_buffer *buffer = buffer_at(values, index);
    return buffer != NULL && buffer->type == type && elements(buffer) == count;
}

/* Reads one argument as a tensor; returns 0 if it is of another type. */
static int read_tensor(const struct ffi_call *call, int64_t index, struct gw_tensor *tensor)
{
    const struct ffi_buffer *buffer = buffer_at(&call->arguments, index);
    if (buffer == NULL) return 0;
    tensor->data = buffer->data;
    tensor->size = elements(buffer);
    switch (buffer->type) {
    case FFI_FLOAT32: tensor->type = GW_FLOAT32; return 1;
    case FFI_FLOAT64: tensor->type = GW_FLOAT64; return 1;
    case FFI_FLOAT16: tensor->type = GW_FLOAT16; return 1;
    case FFI_BFLOAT16: tensor->type = GW_BFLOAT16; return 1;
    default: return 0;
    }
}

/* Whether all arguments from `first` on can be measured; adds up their samples. */
static int check_tensors(const struct ffi_call *call, int64_t first, int64_t *sample_bytes)
{
    struct gw_tensor tensor;
    *sample_bytes = 0;
    for (int64_t i = first; i < call->arguments.count; i++) {
        if (!read_tensor(call, i, &tensor)) return 0;
        *sample_bytes += gw_sample_bytes_one(tensor.size, tensor.type);
    }
    return 1;
}

static void *result_data(const struct ffi_call *call, int64_t index)
{
    return buffer_at(&call->results, index)->data;
}

#define WRONG_TYPE "gradwatch: tensors must be float16, bfloat16, float32 or float64. " \
    "Received: another element type. Set GRADWATCH_NATIVE=0 to measure it without " \
    "the native sweep."
#define WRONG_RESULTS(what) "gradwatch: the results must be " what ". Received: another " \
    "type or size. Describe them so in `jax.ffi.ffi_call`."
#define WRONG_SAMPLE "gradwatch: the second argument must be uint8, the sample of the " \
    "same tensors. Received: another type or size. Pass what `GwSample` gave."
#define WRONG_FIRST(what) "gradwatch: the first argument must be " what ". Received: " \
    "another type or size. Pass it before the tensors."

/* ---- the handlers ------------------------------------------------------------------ */

/* The first argument of every handler is float32 [scale, detail]. In a step of detail 0
 * nothing is wanted: nothing is read then, and the results stay as they are. */
static int read_controls(const struct ffi_call *call, float *controls)
{
    if (!is_buffer(&call->arguments, 0, FFI_FLOAT32, 2)) return 0;
    memcpy(controls, buffer_at(&call->arguments, 0)->data, 2 * sizeof *controls);
    return 1;
}

#define WRONG_CONTROLS WRONG_FIRST("float32[2], the scale and the detail")

/* Arguments: controls, tensors. From detail 2 on, histograms are wanted, too.
 * Results: uint32 [count, 22] (11 float64 each) and uint32 [count, 128]. */
GW_EXPORT ffi_result GwMeasure(struct ffi_call *call)
{
    int64_t count = call->arguments.count - 1, bytes;
    if (is_formality(call)) return NULL;
    float controls[2];
    if (!read_controls(call, controls)) return refuse(call, WRONG_CONTROLS);
    if (!check_tensors(call, 1, &bytes)) return refuse(call, WRONG_TYPE);
    if (!is_buffer(&call->results, 0, FFI_UINT32, count * 2 * GW_COLUMNS)
        || !is_buffer(&call->results, 1, FFI_UINT32, count * GW_BUCKETS))
        return refuse(call, WRONG_RESULTS("uint32[tensors, 22] and uint32[tensors, 128]"));
    if (controls[1] == 0) return NULL;
    unsigned char *rows = result_data(call, 0), *counts = result_data(call, 1);
    uint32_t saved = gw_environment_enter();
    for (int64_t i = 0; i < count; i++) {
        struct gw_tensor tensor;
        double row[GW_COLUMNS], wide[GW_BUCKETS] = {0};
        uint32_t narrow[GW_BUCKETS];
        read_tensor(call, i + 1, &tensor);
        gw_measure_one(&tensor, (double)controls[0], row);
        if (controls[1] >= 2) gw_count_one(&tensor, (double)controls[0], wide);
        for (int k = 0; k < GW_BUCKETS; k++) narrow[k] = (uint32_t)wide[k];
        memcpy(rows + i * (int64_t)sizeof row, row, sizeof row);
        memcpy(counts + i * (int64_t)sizeof narrow, narrow, sizeof narrow);
    }
    gw_environment_leave(saved);
    return NULL;
}

/* Arguments: controls, tensors. Result: uint8 [bytes of their samples, and a seal].
 *
 * The seal is zeros, in every step. XLA cannot know that, so a step in which something
 * depends on it does that something after the sample was taken. */
enum { SEAL = 8 };

GW_EXPORT ffi_result GwSample(struct ffi_call *call)
{
    int64_t bytes;
    if (is_formality(call)) return NULL;
    float controls[2];
    if (!read_controls(call, controls)) return refuse(call, WRONG_CONTROLS);
    if (!check_tensors(call, 1, &bytes)) return refuse(call, WRONG_TYPE);
    if (!is_buffer(&call->results, 0, FFI_UINT8, bytes + SEAL))
        return refuse(call, WRONG_RESULTS("uint8[bytes of the samples + 8]"));
    unsigned char *to = result_data(call, 0);
    memset(to + bytes, 0, SEAL);
    if (controls[1] == 0) return NULL;
    for (int64_t i = 1; i < call->arguments.count; i++) {
        struct gw_tensor tensor;
        read_tensor(call, i, &tensor);
        gw_sample_one(&tensor, to);
        to += gw_sample_bytes_one(tensor.size, tensor.type);
    }
    return NULL;
}

/* Arguments: controls, uint8 sample, tensors.
 * Result: uint32 [count, 8] (4 float64 each). */
GW_EXPORT ffi_result GwMoves(struct ffi_call *call)
{
    int64_t count = call->arguments.count - 2, bytes;
    if (is_formality(call)) return NULL;
    float controls[2];
    if (!read_controls(call, controls)) return refuse(call, WRONG_CONTROLS);
    if (!check_tensors(call, 2, &bytes)) return refuse(call, WRONG_TYPE);
    if (!is_buffer(&call->arguments, 1, FFI_UINT8, bytes + SEAL))
        return refuse(call, WRONG_SAMPLE);
    if (!is_buffer(&call->results, 0, FFI_UINT32, count * 2 * GW_MOVES))
        return refuse(call, WRONG_RESULTS("uint32[tensors, 8]"));
    if (controls[1] == 0) return NULL;
    const unsigned char *sample = buffer_at(&call->arguments, 1)->data;
    unsigned char *rows = result_data(call, 0);
    uint32_t saved = gw_environment_enter();
    for (int64_t i = 0; i < count; i++) {
        struct gw_tensor after;
        double row[GW_MOVES];
        read_tensor(call, i + 2, &after);
        gw_moves_one(&after, sample, row);
        memcpy(rows + i * (int64_t)sizeof row, row, sizeof row);
        sample += gw_sample_bytes_one(after.size, after.type);
    }
    gw_environment_leave(saved);
    return NULL;
}

/* Arguments: controls, tensors. Result: uint32 [count, 2] (one float64 each). */
GW_EXPORT ffi_result GwNorms(struct ffi_call *call)
{
    int64_t count = call->arguments.count - 1, bytes;
    if (is_formality(call)) return NULL;
    float controls[2];
    if (!read_controls(call, controls)) return refuse(call, WRONG_CONTROLS);
    if (!check_tensors(call, 1, &bytes)) return refuse(call, WRONG_TYPE);
    if (!is_buffer(&call->results, 0, FFI_UINT32, count * 2))
        return refuse(call, WRONG_RESULTS("uint32[tensors, 2]"));
    if (controls[1] == 0) return NULL;
    unsigned char *norms = result_data(call, 0);
    uint32_t saved = gw_environment_enter();
    for (int64_t i = 0; i < count; i++) {
        struct gw_tensor tensor;
        read_tensor(call, i + 1, &tensor);
        double norm = gw_norm_one(&tensor);
        memcpy(norms + i * (int64_t)sizeof norm, &norm, sizeof norm);
    }
    gw_environment_leave(saved);
    return NULL;
}
