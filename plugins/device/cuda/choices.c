/* SPDX-License-Identifier: Apache-2.0
 *
 * Parses run.kernels: words joined by "+". Without "simple" they are added to "auto".
 */
#include "cuda.h"

#include <string.h>

static const char *const words[] = {"auto",       "simple", "unordered",
                                    "fused_sums", "timed",  "unpaired"};
enum { AUTO, SIMPLE, UNORDERED, FUSED_SUMS, TIMED, UNPAIRED, N_WORDS };

/* As a bit; 0: there is no such word. */
static uint32_t bit_of(const char *word, size_t length)
{
    for (uint32_t i = 0; i < N_WORDS; i++) {
        if (strlen(words[i]) == length && strncmp(word, words[i], length) == 0) {
            return 1u << i;
        }
    }
    return 0;
}

static pst_status refuse(struct pst_error *err, const char *kernels, const char *why)
{
    return pst_fail(err, PST_ERR_CONFIG, "config.value",
                    "device cuda: unknown kernels \"%s\"%s; known are auto, simple, unordered, "
                    "fused_sums, timed and unpaired, joined by +",
                    kernels, why);
}

pst_status pst_cuda_choose(const char *kernels, struct pst_cuda_choices *ret_choices,
                           struct pst_error *err)
{
    const uint32_t beside_simple = 1u << SIMPLE | 1u << TIMED;
    const char *at = kernels == NULL ? words[AUTO] : kernels;
    uint32_t said = 0;

    do {
        const size_t length = strcspn(at, "+");
        const uint32_t bit = bit_of(at, length);

        if (bit == 0) {
            return refuse(err, kernels, "");
        }
        said |= bit;
        at += length;
    } while (*at++ == '+');
    if ((said & 1u << SIMPLE) != 0 && (said & ~beside_simple) != 0) {
        return refuse(err, kernels, ", simple can be joined with timed only");
    }
    ret_choices->simple = (said & 1u << SIMPLE) != 0;
    ret_choices->ordered = (said & 1u << UNORDERED) == 0;
    ret_choices->fused_sums = (said & 1u << FUSED_SUMS) != 0;
    ret_choices->timed = (said & 1u << TIMED) != 0;
    ret_choices->paired = (said & (1u << SIMPLE | 1u << UNPAIRED)) == 0;
    return PST_OK;
}
