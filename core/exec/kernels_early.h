/* SPDX-License-Identifier: Apache-2.0
 *
 * With kernels of NCCL under way no kernel may be loaded when it is first launched: that may wait
 * for the whole GPU, and so for a kernel of NCCL that waits for its peer (CUDA C++ Programming
 * Guide, "Lazy Loading"). The driver reads the wish at its first call, which a device may make
 * before the transport is there: so both who opens a device for NCCL and NCCL's module tell it.
 */
#ifndef PST_EXEC_KERNELS_EARLY_H
#define PST_EXEC_KERNELS_EARLY_H

#include <stdlib.h>

static inline void pst_load_kernels_early(void)
{
    setenv("CUDA_MODULE_LOADING", "EAGER", 0); /* unless the user says otherwise */
}

#endif
