"""Why a start failed: the table of failures and its reader."""
