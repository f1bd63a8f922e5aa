-- Purpose: add an audit record that belongs to no single change.
-- KEYS/ARGV[1..2], lane: see common_write.lua, common_life.lua
-- ARGV[3]  the namespace, or prefix, encoded; ARGV[4] actor; ARGV[5] action; ARGV[6] key or ''; ARGV[7] reason;
-- ARGV[8]  details as JSON
-- Returns  1

if result_before() then return 1 end
open_gate()
audit(ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7], ARGV[8])
remember_result('1')
return 1
