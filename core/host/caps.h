/* SPDX-License-Identifier: Apache-2.0
 *
 * Capability words: do the strategies of a job, and the executor, give each other what they need?
 */
#ifndef PST_HOST_CAPS_H
#define PST_HOST_CAPS_H

#include "host/plugin_host.h"

/* Does the list hold `word`? Of a word with a number ("chunks=2") a larger one will do; "chunks"
   alone is any number. */
bool pst_caps_has(const char *const *list, const char *word);

/* Does this penstock execute it? */
bool pst_caps_executor(const char *word);

/*
 * What each strategy needs must be provided by another one of them or by the executor.
 * plan.mismatch, exit code 2, one sentence.
 */
pst_status pst_caps_match(const struct pst_plugin *const *plugins, uint32_t n_plugins,
                          struct pst_error *err);

/* The finished answer contains `word`: `plugin`, whose answer it is, and the executor must provide
   it. `what` says what contains it: "a B pass". */
pst_status pst_caps_require(const struct pst_plugin *plugin, const char *word, const char *what,
                            struct pst_error *err);

#endif
