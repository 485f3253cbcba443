/* SPDX-License-Identifier: Apache-2.0
 *
 * Pauses a thread that spins on a word which another thread is about to write.
 */
#ifndef PST_BASE_SPIN_PAUSE_H
#define PST_BASE_SPIN_PAUSE_H

static inline void pst_spin_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

#endif
