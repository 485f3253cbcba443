/* SPDX-License-Identifier: Apache-2.0 */
#include "simd.h"

#include <stdlib.h>
#include <strings.h>

/* Lanes that the environment allows; the names are oneDNN's, so that one variable caps both. */
static int allowed_lanes(void)
{
    const char *cap = getenv("ONEDNN_MAX_CPU_ISA");

    if (cap == NULL) {
        cap = getenv("DNNL_MAX_CPU_ISA");
    }
    if (cap == NULL || strncasecmp(cap, "AVX512", 6) == 0) {
        return 16;
    }
    if (strncasecmp(cap, "AVX2", 4) == 0) {
        return 8;
    }
    return strncasecmp(cap, "SSE", 3) == 0 || strcasecmp(cap, "AVX") == 0 ? 4 : 16;
}

const struct pst_simd *pst_simd_select(void)
{
#if defined(__x86_64__)
    const int lanes = allowed_lanes();

    __builtin_cpu_init();
    if (lanes >= 16 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
        return &pst_simd_avx512;
    }
    if (lanes >= 8 && __builtin_cpu_supports("avx2")) {
        return &pst_simd_avx2;
    }
#endif
    return &pst_simd_base;
}
