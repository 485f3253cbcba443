/* SPDX-License-Identifier: Apache-2.0
 *
 * Paths in the JSON form of a config, which are meant from the folder in which it was written.
 */
#ifndef PST_TUNE_CONFIG_PATHS_H
#define PST_TUNE_CONFIG_PATHS_H

#include <stdbool.h>

/* The config with absolute paths, those that are meant from that folder; if_there: only of files
   that are there. free() it. */
char *pst_config_paths_move(const char *config_json, const char *folder, bool if_there);

#endif
