/* Training steps of perceptrons on a CPU, one model after the other.
 *
 * Batched matrix products over all models pass through memory a dozen times per step, and each pass has to be
 * launched. Here everything that a step of one model touches stays in cache, and nothing is launched. A model's
 * arithmetic does not depend on the models beside it or on the number of threads, so neither do its bytes.
 *
 * A row's gradient in a layer is the product of its inputs and slopes: DP-SGD has its norm without it.
 *
 * Matrices are (rows, columns) with columns padded to whole vectors. The padding is zero and stays zero.
 */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#ifdef __AVX512F__
#define LANES 16
#else
#define LANES 8
#endif
#define LINE 16 /* numbers in a line of the cache */
#define TILE_ROWS 6 /* times two vectors: twelve sums, and the rest of sixteen registers for what is added */
#define NARROW_TILE_ROWS 12 /* times one vector */
#define BETA1 0.9
#define BETA2 0.999
#define EPSILON 1e-8f

typedef float vector __attribute__((vector_size(4 * LANES), aligned(4)));
typedef int32_t lanes __attribute__((vector_size(4 * LANES), aligned(4)));
typedef float octet __attribute__((vector_size(32), aligned(4))); /* for sums that must not depend on LANES */

enum { LINEAR, RELU, TANH };
enum { SGD, ADAM, ADAMW };

typedef struct {
    int64_t n_layers, n_models, n_steps, batch, steps_before;
    const int64_t *sizes;       /* (layers + 1,) */
    const int64_t *activations; /* (layers,) */
    const int64_t *is_tall;     /* (layers,): the weight is stored (inputs, units), else (units, inputs) */
    float *const *values;       /* weight and bias of each layer in turn, (models, ...) each */
    float *const *moments1;     /* as values; NULL: the optimizer has none */
    float *const *moments2;
    const float *x;             /* (records, inputs) */
    const float *numbers;       /* (records,) labels of a regression, or NULL */
    const int64_t *classes;     /* (records,) labels, or NULL */
    const int64_t *order;       /* (steps, models, batch); a row may end early, with a negative number */
    const float *row_weight;    /* (steps, models, batch) */
    const uint8_t *idle;        /* (steps, models) */
    const double *lr;           /* (steps,) */
    int64_t optimizer, nesterov;
    double smoothing, momentum, weight_decay;
    void (*draw)(uint64_t, uint64_t, int64_t, float *); /* normal numbers of noise.c; NULL: no privacy */
    const uint64_t *keys;       /* (models,), of the noise */
    const float *clip;          /* (steps, models, batch), largest norm of a row's gradient */
    int64_t first_step;         /* number of the first step, of the noise */
    double noise;               /* its standard deviation */
} training;

typedef struct {
    int64_t in, out, rows, columns, wide, is_tall, activation, n_weights, n_values, n_before;
    float *values, *slope_sums, *moments1, *moments2; /* weights, then biases */
    float *turned;                                    /* the weights, columns before rows */
    float *outputs, *slopes;                          /* (batch, units) */
} layer;

typedef struct {
    float *x, *factor; /* (batch, inputs), (batch,) */
    float *noise;      /* a number per parameter, the biases of a layer after its weights */
    int64_t n_blocks;  /* of four numbers each */
} workspace;

static int64_t padded(int64_t n) { return (n + LANES - 1) / LANES * LANES; }

/* The distance between rows of a batch; of a power of two, they would compete for places in the cache. */
static int64_t spaced(int64_t n) { return padded(n) % (4 * LINE) ? padded(n) : padded(n) + LINE; }

static int64_t aligned(int64_t n) { return (n + LINE - 1) / LINE * LINE; }

typedef struct {
    const float *at;
    int64_t row, column; /* distances in memory */
} matrix;

typedef struct {
    const float *start; /* what sums start from, one number per column; NULL: zero */
    const float *gate;  /* where this is not above zero, the result is zero; NULL: no gate */
    int is_rectified;
    int64_t row; /* distance of the rows of the result and of the gate */
} finish;

/* c = start + a b, for a tile of c. Constant sizes keep all sums in registers. */
static inline __attribute__((always_inline)) void multiply_tile(
    const int rows, const int vectors, int64_t depth, matrix a, matrix b, float *c, finish end)
{
    vector sum[NARROW_TILE_ROWS][2];
    for (int m = 0; m < rows; m++)
        for (int n = 0; n < vectors; n++)
            sum[m][n] = end.start ? *(const vector *)(end.start + LANES * n) : (vector){0};
    for (int64_t k = 0; k < depth; k++) {
        vector right[2];
        for (int n = 0; n < vectors; n++) right[n] = *(const vector *)(b.at + k * b.row + LANES * n);
        for (int m = 0; m < rows; m++) {
            const float left = a.at[m * a.row + k * a.column];
            for (int n = 0; n < vectors; n++) sum[m][n] += left * right[n];
        }
    }
    for (int m = 0; m < rows; m++)
        for (int n = 0; n < vectors; n++) {
            vector result = sum[m][n]; /* comparisons are such that what is not a number stays so */
            if (end.is_rectified) result = (vector)((lanes)result & ~(lanes)(result <= 0));
            if (end.gate) {
                const vector gate = *(const vector *)(end.gate + m * end.row + LANES * n);
                result = (vector)((lanes)result & ~(lanes)(gate <= 0));
            }
            *(vector *)(c + m * end.row + LANES * n) = result;
        }
}

#define CASE(r)                                                                     \
    case r:                                                                         \
        if (is_single) multiply_tile(r, 1, depth, left, right, to, here);  \
        else multiply_tile(r, 2, depth, left, right, to, here);            \
        break;

/* c = start + a b; `columns` are whole vectors. */
static void multiply(
    int64_t rows, int64_t columns, int64_t depth, matrix a, matrix b, float *c, finish end)
{
    for (int64_t n = 0; n < columns; n += 2 * LANES) {
        const int is_single = columns - n < 2 * LANES;
        const matrix right = {b.at + n, b.row, 1};
        for (int64_t m = 0, taken; m < rows; m += taken) {
            const matrix left = {a.at + m * a.row, a.row, a.column};
            const finish here = {
                end.start ? end.start + n : NULL, end.gate ? end.gate + m * end.row + n : NULL, end.is_rectified, end.row};
            float *to = c + m * end.row + n;
            taken = rows - m < TILE_ROWS ? rows - m : TILE_ROWS;
            if (is_single && rows - m >= NARROW_TILE_ROWS) taken = NARROW_TILE_ROWS;
            switch (taken) {
                CASE(1) CASE(2) CASE(3) CASE(4) CASE(5) CASE(6)
                case NARROW_TILE_ROWS: multiply_tile(NARROW_TILE_ROWS, 1, depth, left, right, to, here);
            }
        }
    }
}

/* Within two units in the last place between -87 and 88; in a form that compilers vectorize. */
static inline float exponential(float x)
{
    x = x < -87.0f ? -87.0f : x > 88.0f ? 88.0f : x;
    const float n = __builtin_rintf(x * 1.44269504f);
    const float r = x - n * 0.693359375f + n * 2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1.0f;
    const union { int32_t bits; float number; } scale = {((int32_t)n + 127) << 23};
    return p * scale.number;
}

static inline float hyperbolic_tangent(float x)
{
    const float z = x * x, far = 1 - 2 / (exponential(2 * fabsf(x)) + 1);
    float p = -5.70498872745e-3f;
    p = p * z + 2.06390887954e-2f;
    p = p * z - 5.37397155531e-2f;
    p = p * z + 1.33314422036e-1f;
    p = p * z - 3.33332819422e-1f;
    return fabsf(x) > 0.625f ? copysignf(far, x) : p * z * x + x;
}

/* Outputs (batch, classes) become the slopes of the cross-entropy; without a weight, rows count once. */
static void differentiate_classes(
    const training *t, int64_t rows, const int64_t *records, const float *weight, float *z, int64_t n)
{
    const int64_t wide = padded(n);
    const float other = t->smoothing / n, own = 1 - t->smoothing;
    for (int64_t r = 0; r < rows; r++, z += spaced(n)) {
        float highest = z[0], total = 0;
        for (int64_t c = 1; c < n; c++) highest = z[c] > highest ? z[c] : highest;
        for (int64_t c = 0; c < wide; c++) z[c] = exponential(z[c] - highest);
        for (int64_t c = 0; c < n; c++) total += z[c];
        const float scale = 1 / total, by = weight ? weight[r] : 1;
        for (int64_t c = 0; c < n; c++) z[c] = (z[c] * scale - other) * by;
        for (int64_t c = n; c < wide; c++) z[c] = 0;
        z[t->classes[records[r]]] -= own * by;
    }
}

/* Outputs (batch, 1) become the slopes of the squared error. */
static void differentiate_numbers(const training *t, int64_t rows, const int64_t *records, const float *weight, float *z)
{
    for (int64_t r = 0; r < rows; r++, z += LANES) z[0] = 2 * (weight ? weight[r] : 1) * (z[0] - t->numbers[records[r]]);
}

/* The formulas of torch's fused kernels. */
static void update_by_sgd(const training *t, float lr, layer *l)
{
    const float decay = t->weight_decay, momentum = t->momentum;
    for (int64_t i = 0; i < l->n_values; i++) {
        float slope = l->slope_sums[i] + decay * l->values[i];
        if (t->moments1) {
            l->moments1[i] = momentum * l->moments1[i] + slope;
            slope = t->nesterov ? slope + momentum * l->moments1[i] : l->moments1[i];
        }
        l->values[i] -= lr * slope;
    }
}

static void update_by_adam(const training *t, double lr, int64_t count, const layer *l)
{
    float *restrict value = l->values, *restrict m = l->moments1, *restrict v = l->moments2;
    const float *restrict slope = l->slope_sums;
    const float step = lr / (1 - pow(BETA1, count)), scale = 1 / sqrt(1 - pow(BETA2, count));
    const float shrink = t->optimizer == ADAMW ? 1 - lr * t->weight_decay : 1;
    const float decay = t->optimizer == ADAM ? t->weight_decay : 0;
    for (int64_t i = 0; i < l->n_values; i++) {
        const float g = slope[i] + decay * value[i];
        m[i] += (float)(1 - BETA1) * (g - m[i]);
        v[i] = (float)BETA2 * v[i] + (float)(1 - BETA2) * g * g;
        value[i] = value[i] * shrink - step * m[i] / (sqrtf(v[i]) * scale + EPSILON);
    }
}

/* A layer's weights as (inputs, units) or (units, inputs), whichever way they are stored. */
static matrix map_of(const layer *l, int64_t by_inputs)
{
    if (l->is_tall == by_inputs) return (matrix){l->values, l->wide, 1};
    const int64_t wide = padded(l->rows);
    for (int64_t r = 0; r < l->rows; r++)
        for (int64_t c = 0; c < l->columns; c++) l->turned[c * wide + r] = l->values[r * l->wide + c];
    return (matrix){l->turned, wide, 1};
}

static void pass_forward(const training *t, layer *layers, int64_t rows, const float *x)
{
    matrix below = {x, spaced(t->sizes[0]), 1};
    for (layer *l = layers; l < layers + t->n_layers; l++) {
        const int64_t wide = spaced(l->out);
        const finish end = {l->values + l->n_weights, NULL, l->activation == RELU, wide};
        multiply(rows, padded(l->out), l->in, below, map_of(l, 1), l->outputs, end);
        if (l->activation == TANH)
            for (int64_t i = 0; i < rows * wide; i++) l->outputs[i] = hyperbolic_tangent(l->outputs[i]);
        below = (matrix){l->outputs, wide, 1};
    }
}

static void pass_slopes_down(int64_t rows, const layer *l, layer *under)
{
    const int64_t wide = spaced(l->in);
    const finish end = {NULL, under->activation == RELU ? under->outputs : NULL, 0, wide};
    multiply(rows, padded(l->in), l->out, (matrix){l->slopes, spaced(l->out), 1}, map_of(l, 0), under->slopes, end);
    if (under->activation == TANH)
        for (int64_t i = 0; i < rows * wide; i++)
            under->slopes[i] *= 1 - under->outputs[i] * under->outputs[i];
}

static void sum_slopes(int64_t rows, layer *l, const float *below)
{
    const int64_t in = spaced(l->in), out = spaced(l->out);
    float *sums = l->slope_sums + l->n_weights;
    const finish end = {NULL, NULL, 0, l->wide};
    if (l->is_tall)
        multiply(l->in, l->wide, rows, (matrix){below, 1, in}, (matrix){l->slopes, out, 1}, l->slope_sums, end);
    else
        multiply(l->out, l->wide, rows, (matrix){l->slopes, 1, out}, (matrix){below, in, 1}, l->slope_sums, end);
    memset(sums, 0, sizeof(float) * padded(l->out));
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < padded(l->out); c++) sums[c] += l->slopes[r * out + c];
}

static float sum_of_squares(const float *numbers, int64_t n)
{
    float total = 0;
    octet sum = {0};
    for (int64_t i = 0; i < n; i += 8) sum += *(const octet *)(numbers + i) * *(const octet *)(numbers + i);
    for (int i = 0; i < 8; i++) total += sum[i];
    return total;
}

/* Scales the slopes of each row so that its gradient has at most the norm `clip`, and then by its weight. */
static void clip_rows(
    const training *t, layer *layers, int64_t rows, const workspace *w, const float *clip, const float *weight)
{
    memset(w->factor, 0, sizeof(float) * rows);
    const float *below = w->x;
    for (layer *l = layers; l < layers + t->n_layers; below = l++->outputs)
        for (int64_t r = 0; r < rows; r++)
            w->factor[r] += (1 + sum_of_squares(below + r * spaced(l->in), padded(l->in)))
                            * sum_of_squares(l->slopes + r * spaced(l->out), padded(l->out));
    for (int64_t r = 0; r < rows; r++) {
        const float scale = clip[r] / sqrtf(w->factor[r]); /* what is not a number stays so */
        w->factor[r] = weight[r] * (scale > 1 ? 1 : scale);
    }
    for (layer *l = layers; l < layers + t->n_layers; l++)
        for (int64_t r = 0; r < rows; r++)
            for (int64_t c = 0; c < padded(l->out); c++) l->slopes[r * spaced(l->out) + c] *= w->factor[r];
}

static void add_noise(const training *t, layer *l, const float *noise)
{
    const float scale = t->noise;
    noise += l->n_before;
    for (int64_t r = 0; r < l->rows; r++, noise += l->columns)
        for (int64_t c = 0; c < l->columns; c++) l->slope_sums[r * l->wide + c] += scale * noise[c];
    for (int64_t c = 0; c < l->out; c++) l->slope_sums[l->n_weights + c] += scale * noise[c];
}

static void take_step(const training *t, layer *layers, const workspace *w, int64_t step, int64_t model)
{
    const int64_t n_inputs = t->sizes[0], start = (step * t->n_models + model) * t->batch;
    const int64_t *records = t->order + start;
    const float *weight = t->row_weight + start;
    layer *last = layers + t->n_layers - 1;
    int64_t rows = 0;
    for (; rows < t->batch && records[rows] >= 0; rows++)
        memcpy(w->x + rows * spaced(n_inputs), t->x + records[rows] * n_inputs, sizeof(float) * n_inputs);
    pass_forward(t, layers, rows, w->x);
    if (t->classes) differentiate_classes(t, rows, records, t->draw ? NULL : weight, last->slopes, last->out);
    else differentiate_numbers(t, rows, records, t->draw ? NULL : weight, last->slopes);
    for (layer *l = last; l > layers; l--) pass_slopes_down(rows, l, l - 1);
    if (t->draw) {
        clip_rows(t, layers, rows, w, t->clip + start, weight);
        t->draw(t->keys[model], t->first_step + step, w->n_blocks, w->noise);
    }
    for (layer *l = layers; l <= last; l++) {
        sum_slopes(rows, l, l > layers ? (l - 1)->outputs : w->x);
        if (t->draw) add_noise(t, l, w->noise);
        if (t->optimizer == SGD) update_by_sgd(t, t->lr[step], l);
        else update_by_adam(t, t->lr[step], t->steps_before + step + 1, l);
    }
}

/* Sets the sizes of the layers and cuts all parts out of `memory`; NULL: only measures it. */
static int64_t lay_out(const training *t, layer *layers, workspace *w, float *memory)
{
    int64_t used = 0, n_before = 0;
    for (int64_t k = 0; k < t->n_layers; n_before += layers[k].out * (layers[k].in + 1), k++) {
        layer *l = layers + k;
        l->in = t->sizes[k], l->out = t->sizes[k + 1];
        l->is_tall = t->is_tall[k], l->activation = t->activations[k];
        l->rows = l->is_tall ? l->in : l->out, l->columns = l->is_tall ? l->out : l->in;
        l->wide = padded(l->columns), l->n_weights = l->rows * l->wide;
        l->n_values = l->n_weights + padded(l->out), l->n_before = n_before;
        const int64_t n_turned = l->columns * padded(l->rows), n_outputs = t->batch * spaced(l->out);
        float **parts[] = {&l->values, &l->slope_sums, &l->moments1, &l->moments2, &l->turned, &l->outputs, &l->slopes};
        const int64_t lengths[] = {l->n_values, l->n_values, l->n_values, l->n_values, n_turned, n_outputs, n_outputs};
        for (int part = 0; part < 7; used += aligned(lengths[part++]))
            *parts[part] = memory ? memory + used : NULL;
        if (k + 1 == t->n_layers) l->slopes = l->outputs; /* the last outputs become slopes */
    }
    const int64_t n_blocks = t->draw ? (n_before + 3) / 4 : 0;
    float **parts[] = {&w->x, &w->factor, &w->noise};
    const int64_t lengths[] = {t->batch * spaced(t->sizes[0]), t->batch, 4 * n_blocks};
    for (int part = 0; part < 3; used += aligned(lengths[part++])) *parts[part] = memory ? memory + used : NULL;
    w->n_blocks = n_blocks;
    return used;
}

static void copy_rows(int is_loaded, int64_t rows, int64_t columns, float *own, int64_t distance, float *given)
{
    for (int64_t r = 0; r < rows; r++, own += distance, given += columns)
        memcpy(is_loaded ? own : given, is_loaded ? given : own, sizeof(float) * columns);
}

/* Copies a model between the stacked tensors and the padded layers. */
static void copy_model(const training *t, layer *layers, int64_t model, int is_loaded)
{
    float *const *tensors[] = {t->values, t->moments1, t->moments2};
    for (layer *l = layers; l < layers + t->n_layers; l++) {
        float *own[] = {l->values, l->moments1, l->moments2};
        for (int part = 0; part < 3; part++) {
            if (!tensors[part]) continue;
            float *const *pair = tensors[part] + 2 * (l - layers);
            copy_rows(is_loaded, l->rows, l->columns, own[part], l->wide, pair[0] + model * l->rows * l->columns);
            copy_rows(is_loaded, 1, l->out, own[part] + l->n_weights, l->out, pair[1] + model * l->out);
        }
    }
}

/* Takes all steps of the models from `first` to before `end`; 0, or 1 where there is no memory. */
int train_perceptrons(const training *t, int64_t first, int64_t end)
{
    workspace w;
    layer *layers = calloc(t->n_layers, sizeof *layers);
    if (!layers) return 1;
    float *memory = calloc(LINE + lay_out(t, layers, &w, NULL), sizeof *memory);
    if (memory) {
        const uintptr_t line = sizeof(float) * LINE;
        lay_out(t, layers, &w, (float *)(((uintptr_t)memory + line - 1) / line * line));
        for (int64_t model = first; model < end; model++) {
            copy_model(t, layers, model, 1);
            for (int64_t step = 0; step < t->n_steps; step++)
                if (!t->idle[step * t->n_models + model]) take_step(t, layers, &w, step, model);
            copy_model(t, layers, model, 0);
        }
    }
    const int is_short = !memory;
    free(memory);
    free(layers);
    return is_short;
}
