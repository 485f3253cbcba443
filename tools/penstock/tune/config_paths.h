/* SPDX-License-Identifier: Apache-2.0
 *
 * Paths in the JSON form of a config, which are meant from the folder in which it was written.
 */
#ifndef PST_TUNE_CONFIG_PATHS_H
#define PST_TUNE_CONFIG_PATHS_H

/* Which relative paths: all, those of files that are there, or those of these that are not in the
   current folder as well. */
enum pst_paths { PST_PATHS_ALL, PST_PATHS_THERE, PST_PATHS_ONLY_THERE };

/* The config with these paths in that folder; as it is if it is no JSON. free() it. */
char *pst_config_paths_move(const char *config_json, const char *folder, enum pst_paths which);

#endif
