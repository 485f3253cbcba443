/* SPDX-License-Identifier: Apache-2.0
 *
 * What a plugin says of itself. One of the program's own is opened for that; any other is opened in
 * a process apart, which hands its description over: what its constructors do ends that process and
 * nothing else.
 */
#ifndef PST_HOST_DESCRIBE_H
#define PST_HOST_DESCRIBE_H

#include "host/apart.h"
#include "host/plugin_host.h"
#include "host/shipped.h"

/* For a plugin that is listed, whose job and time limit are unknown: loading takes milliseconds. */
#define PST_DESCRIBE_NS ((uint64_t)2500000000)

/*
 * kind and id may be NULL. most_ns: the time that loading may take, 0: any. The description may be
 * read and nothing else: its functions may be NULL. It lives as long as the arena. ret_shipped may
 * be NULL. Errors: those of pst_plugin_open, and those of pst_worker_ask.
 */
pst_status pst_plugin_describe(struct pst_arena *arena, const char *path, const char *kind,
                               const char *id, uint64_t most_ns,
                               const struct pst_plugin **ret_plugin,
                               struct pst_shipped *ret_shipped, struct pst_error *err);

/* plugin.timeout where loading this file, which is not the program's own, does not end within that
   time; what else is wrong with it is left to who opens it. A file is loaded once for that. */
pst_status pst_plugin_check_loading(const char *path, const char *kind, const char *id,
                                    uint64_t most_ns, struct pst_error *err);

extern const struct pst_apart_kind pst_describe_kind; /* of that process */

#endif
