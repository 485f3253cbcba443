/* SPDX-License-Identifier: Apache-2.0
 *
 * The modules that come with penstock, in this build or in another.
 */
#include "commands/modules.h"

static const struct pst_module_known modules[] = {
    {"device", "cpu", NULL, NULL, PST_MODULE_USUAL},
    {"device", "cuda", "NVIDIA GPUs", NULL, 0},
    {"transport", "threads", NULL, NULL, PST_MODULE_USUAL | PST_MODULE_SHARES},
    {"transport", "mpi", "devices on several machines; it takes libopenmpi-dev and openmpi-bin",
     NULL, PST_MODULE_PROCESSES},
    {"transport", "nccl", "links between NVIDIA GPUs; it takes CUDA and libnccl-dev", "cuda",
     PST_MODULE_PROCESSES | PST_MODULE_IN_STREAMS},
    {NULL, NULL, NULL, NULL, 0},
};

void pst_tell_modules(void)
{
    pst_modules_tell(modules);
}
