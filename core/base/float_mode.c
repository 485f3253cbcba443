/* SPDX-License-Identifier: Apache-2.0 */
#include "base/float_mode.h"

#include <fenv.h>

#if defined(__x86_64__)
#include <xmmintrin.h>

#define STATUS_BITS 0x3Fu      /* of MXCSR: exceptions that were raised */
#define RESERVED    0xE0C0u    /* of the x87 control word */
#define AT_START    0x033F1F80 /* System V ABI for AMD64, table 3.4 */
#elif defined(__aarch64__)
#define AT_START 0
#else
#define AT_START ((uint64_t)FE_TONEAREST)
#endif

uint64_t pst_float_mode(void)
{
#if defined(__x86_64__)
    uint16_t x87;

    __asm__ volatile("fnstcw %0" : "=m"(x87));
    return (uint64_t)(x87 & ~RESERVED) << 16 | (_mm_getcsr() & ~STATUS_BITS);
#elif defined(__aarch64__)
    uint64_t mode;

    __asm__ volatile("mrs %0, fpcr" : "=r"(mode));
    return mode;
#else
    return (uint64_t)fegetround();
#endif
}

bool pst_float_mode_reset(void)
{
    if (pst_float_mode() == AT_START) {
        return false;
    }
    fesetenv(FE_DFL_ENV);
#if defined(__x86_64__)
    _mm_setcsr(AT_START & 0xFFFF); /* other C libraries leave the bits for subnormals */
#endif
    return true;
}
