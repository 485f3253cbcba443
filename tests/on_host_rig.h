/* SPDX-License-Identifier: Apache-2.0
 *
 * The program as it would be with NVIDIA GPUs and NCCL, whose doubles stand in their places: a copy
 * in the test's folder, with the modules of the build beside it. Include cmocka and unistd.h
 * before; everything that runs the program then runs this one.
 */
#ifndef PENSTOCK_TESTS_ON_HOST_RIG_H
#define PENSTOCK_TESTS_ON_HOST_RIG_H

static char on_host_binary[160];
static const char on_host_original[] = PENSTOCK_BINARY;
#undef PENSTOCK_BINARY
#define PENSTOCK_BINARY on_host_binary
#include "support.h"

static inline bool on_host_is_here(void)
{
    if (access(PENSTOCK_PLUGIN_DIR "/tests/device-cuda-on-host.so", F_OK) == 0 &&
        access(PENSTOCK_PLUGIN_DIR "/tests/transport-nccl-on-host.so", F_OK) == 0) {
        return true;
    }
    printf("skipped: this build has no CUDA\n");
    return false;
}

/* Group set-up, in place of support_begin. The program follows no links, so all are copies; the
   double of NCCL looks for what it has the rest done by one folder up. */
static inline int on_host_begin(void **state)
{
    char command[2048];

    if (support_begin(state) != 0 || setenv("ON_HOST_GPUS", "16", 1) != 0) {
        return -1;
    }
    snprintf(on_host_binary, sizeof on_host_binary, "%s/penstock", support_folder);
    snprintf(command, sizeof command,
             "set -e; f=%s; p=$f/plugins; m='%s'; mkdir $p; cp '%s' %s; "
             "cp \"$m\"/partitioner-*.so \"$m\"/scheduler-*.so \"$m\"/memopt-*.so "
             "\"$m\"/device-cpu.so \"$m\"/transport-threads.so \"$m\"/transport-mpi.so $p; "
             "cp \"$m\"/tests/device-cuda-on-host.so $p/device-cuda.so; "
             "cp \"$m\"/tests/transport-nccl-on-host.so $p/transport-nccl.so; "
             "(cd $p; \"$m\"/../list_shipped . *.so); "
             "ln -s $p/transport-threads.so $p/transport-mpi.so $f",
             support_folder, PENSTOCK_PLUGIN_DIR, on_host_original, on_host_binary);
    return system(command) == 0 ? 0 : -1;
}

#endif
