/* SPDX-License-Identifier: Apache-2.0
 *
 * Threads and floating-point mode of a device. With one thread per device (the default) nothing
 * here touches OpenMP's pool, so no idle worker spins.
 */
#include "cpu.h"

#include <fenv.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif
#ifdef _OPENMP
#include <omp.h>
#endif

static void set_float_mode(void)
{
    fesetenv(FE_DFL_ENV); /* rounding, traps, precision */
#if defined(__x86_64__)
    _mm_setcsr(_mm_getcsr() | 0x8040u); /* flush to zero, denormals are zero */
#endif
}

void pst_cpu_enter(struct pst_device *device)
{
    set_float_mode();
#ifdef _OPENMP
    omp_set_dynamic(0);
    omp_set_num_threads((int)device->threads); /* of this thread; oneDNN asks for it, too */
    if (device->threads > 1) {
#pragma omp parallel num_threads((int)device->threads)
        set_float_mode();
    }
#else
    (void)device;
#endif
}

void pst_cpu_leave(struct pst_device *device)
{
#ifdef _OPENMP
    if (device->threads > 1) {
        omp_pause_resource_all(omp_pause_soft); /* its workers end; a later region makes new ones */
    }
#else
    (void)device;
#endif
}

int pst_cpu_threads_push(uint32_t threads)
{
#ifdef _OPENMP
    const int old = omp_get_max_threads();

    omp_set_num_threads((int)threads);
    return old;
#else
    return (int)threads;
#endif
}

void pst_cpu_threads_pop(int old)
{
#ifdef _OPENMP
    omp_set_num_threads(old);
#else
    (void)old;
#endif
}

void pst_cpu_parallel(const struct pst_device *device, uint64_t n, pst_cpu_work *work,
                      void *context)
{
#ifdef _OPENMP
    if (device->threads > 1 && n > 0) { /* for one item, too: what it calls must not split it */
#pragma omp parallel num_threads((int)device->threads)
        {
            const uint64_t thread = (uint64_t)omp_get_thread_num();
            const uint64_t count = (uint64_t)omp_get_num_threads();
            const uint64_t begin = n * thread / count, end = n * (thread + 1) / count;

            omp_set_num_threads(1); /* in here: products of one thread, and their bits */
            if (begin < end) {
                work(context, begin, end, (uint32_t)thread);
            }
        }
        return;
    }
#endif
    (void)device;
    if (n > 0) {
        work(context, 0, n, 0);
    }
}
