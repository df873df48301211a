// SQLite, with a function in the place of one with a variable number of arguments, which Swift does not see.
#include <sqlite3.h>

// A connection that ends leaves file and log as they are. Returns SQLite's result.
static inline int csqlite_keep_log(sqlite3 *connection) {
    int is_kept = 1;
    int code = sqlite3_db_config(connection, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, (int *)0);
    return code ? code : sqlite3_file_control(connection, "main", SQLITE_FCNTL_PERSIST_WAL, &is_kept);
}
