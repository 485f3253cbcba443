/* SPDX-License-Identifier: Apache-2.0
 *
 * A call of the host (plugins/call) under the names that partitioners use.
 */
#ifndef PARTITIONERS_COMMON_CALL_H
#define PARTITIONERS_COMMON_CALL_H

#include "plugin_call.h"

#define part_alloc     call_alloc
#define part_try_alloc call_try_alloc
#define part_resize    call_resize
#define part_free      call_free
#define part_end       call_end
#define part_check     call_check
#define part_scope     call_scope
#define part_call      call_run
#define part_call_now  call_now
#define part_call_join call_join
#define PART_MAKE_ROOM CALL_MAKE_ROOM

/* The function of pst_partitioner: `function` as a call, which has the same arguments. */
#define PART_PARTITIONER(function)                                                                 \
    CALL_FUNCTION(call_##function, function, struct pst_partition_in, struct pst_partition_out)    \
    PST_INTERFACE(PST_PARTITIONER, struct pst_partitioner, .partition = call_##function)

#endif
