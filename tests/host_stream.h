/* SPDX-License-Identifier: Apache-2.0
 *
 * A stream of one double on the host as another sees it: doubles of devices hand out theirs, the
 * double of NCCL puts its work into them. What stands for a cudaStream_t begins with this.
 */
#ifndef PENSTOCK_TESTS_HOST_STREAM_H
#define PENSTOCK_TESTS_HOST_STREAM_H

#include <stdint.h>

#define HOST_STREAM UINT64_C(0x686f73742d737472)

struct host_stream {
    uint64_t magic; /* HOST_STREAM */
    /* Has the stream run work(argument) once it is there, then free the argument. On the thread
       that the stream is for. NULL: it has always done what it was asked for. */
    void (*ask)(struct host_stream *stream, void (*work)(void *argument), void *argument);
    /* Where on the host that is which an address of the device stands for; others as they are.
       NULL: of the device, too. Any thread. */
    void *(*reach)(const void *address);
};

#endif
