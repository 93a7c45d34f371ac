/* Standard normal numbers that depend on (key, step, position) only: the words of Philox 4x32 with ten rounds
 * (Salmon et al. 2011), then Box and Muller's method. noise.py has the same numbers by torch, within rounding.
 */
#include <math.h>
#include <stdint.h>
#ifdef __AVX2__
#include <immintrin.h>
#endif

#define LANES 8
#define ROUNDS 10

typedef uint32_t words __attribute__((vector_size(4 * LANES)));

/* The upper and the lower halves of 64-bit products. */
static inline __attribute__((always_inline)) void multiply(const words *a, uint32_t by, words *high, words *low)
{
#ifdef __AVX2__ /* compilers multiply every other word at a time where they could multiply all */
    const __m256i factor = _mm256_set1_epi32((int32_t)by), even = _mm256_mul_epu32((__m256i)*a, factor);
    const __m256i odd = _mm256_mul_epu32(_mm256_srli_epi64((__m256i)*a, 32), factor);
    *high = (words)_mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xAA);
    *low = (words)_mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xAA);
#else
    for (int i = 0; i < LANES; i++) (*high)[i] = (uint64_t)(*a)[i] * by >> 32;
    *low = *a * by;
#endif
}

/* The four words of the counters (first + lane, 0, step). */
static inline __attribute__((always_inline)) void hash(uint64_t key, uint64_t step, uint32_t first, words w[4])
{
    uint32_t key0 = key, key1 = key >> 32;
    words high0, low0, high2, low2;
    w[0] = (words){0, 1, 2, 3, 4, 5, 6, 7} + first, w[1] = (words){0};
    w[2] = (words){0} + (uint32_t)step, w[3] = (words){0} + (uint32_t)(step >> 32);
    for (int round = 0; round < ROUNDS; round++, key0 += 0x9E3779B9u, key1 += 0xBB67AE85u) {
        multiply(w, 0xD2511F53u, &high0, &low0);
        multiply(w + 2, 0xCD9E8D57u, &high2, &low2);
        w[0] = high2 ^ w[1] ^ key0, w[1] = low2;
        w[2] = high0 ^ w[3] ^ key1, w[3] = low0;
    }
}

/* The natural logarithm, within two units in the last place, of 2^-32 to 1. */
static inline float logarithm(float x)
{
    union { float number; int32_t bits; } part = {x};
    const int32_t distance = part.bits - 0x3F3504F3; /* from the bits of the root of one half */
    const float exponent = distance >> 23;
    part.bits = (distance & 0x007FFFFF) + 0x3F3504F3;
    const float f = part.number - 1, z = f * f;
    float p = 7.0376836292e-2f;
    p = p * f - 1.1514610310e-1f;
    p = p * f + 1.1676998740e-1f;
    p = p * f - 1.2420140846e-1f;
    p = p * f + 1.4249322787e-1f;
    p = p * f - 1.6668057665e-1f;
    p = p * f + 2.0000714765e-1f;
    p = p * f - 2.4999993993e-1f;
    p = p * f + 3.3333331174e-1f;
    return exponent * 0.693359375f + (f + (p * f * z - 0.5f * z - exponent * 2.12194440e-4f));
}

/* Two normal numbers from two words. In a form that compilers vectorize. */
static inline void normal_pair(uint32_t of_radius, uint32_t of_angle, float *one, float *other)
{
    const float uniform = ((float)(int32_t)(of_radius >> 1) + 0.5f) * 0x1p-31f;
    const float radius = sqrtf(-2 * logarithm(uniform));
    const uint32_t quarter = (of_angle + 0x20000000u) >> 30;       /* the nearest quarter of a turn, */
    const float x = (float)(int32_t)(of_angle << 2) * 3.65729520e-10f; /* and the angle from there: 2 pi 2^-34 */
    const float z = x * x;
    const float sine = ((-1.9515295891e-4f * z + 8.3321608736e-3f) * z - 1.6666654611e-1f) * z * x + x;
    const float cosine =
        ((2.443315711809948e-5f * z - 1.388731625493765e-3f) * z + 4.166664568298827e-2f) * z * z - 0.5f * z + 1;
    const float c = quarter & 1 ? sine : cosine, s = quarter & 1 ? cosine : sine;
    *one = (quarter + 1) & 2 ? -radius * c : radius * c;
    *other = quarter & 2 ? -radius * s : radius * s;
}

/* Four times `n_blocks` numbers: all first numbers of the blocks, then all second ones, and so on. */
void normal_numbers(uint64_t key, uint64_t step, int64_t n_blocks, float *to)
{
    for (int64_t first = 0; first < n_blocks; first += LANES) {
        words w[4];
        float made[4][LANES];
        hash(key, step, first, w);
        for (int i = 0; i < LANES; i++) normal_pair(w[0][i], w[1][i], &made[0][i], &made[1][i]);
        for (int i = 0; i < LANES; i++) normal_pair(w[2][i], w[3][i], &made[2][i], &made[3][i]);
        const int64_t n = n_blocks - first < LANES ? n_blocks - first : LANES;
        for (int part = 0; part < 4; part++)
            for (int64_t i = 0; i < n; i++) to[part * n_blocks + first + i] = made[part][i];
    }
}
