-- What spectrace wrote in version 1 of the format: two cycles of one rank; to be left as it is.
CREATE TABLE cycles(id BIGINT, run_id VARCHAR, group_name VARCHAR, number BIGINT, kind VARCHAR, batch_size BIGINT, steps BIGINT, topk BIGINT, draft_tokens BIGINT, start_ns BIGINT, end_ns BIGINT, has_requests BOOLEAN);
CREATE TABLE format("name" VARCHAR, "version" BIGINT);
CREATE TABLE phases(id BIGINT, rank_place BIGINT, place BIGINT, rank VARCHAR, lane VARCHAR, "name" VARCHAR, start_ns BIGINT, end_ns BIGINT, of_cycle BIGINT);
CREATE TABLE ranks(id BIGINT, place BIGINT, rank VARCHAR, start_ns BIGINT, end_ns BIGINT, "mode" VARCHAR, probe_ns BIGINT, ended_idle BOOLEAN, incomplete BOOLEAN);
CREATE TABLE requests(id BIGINT, place BIGINT, request_id VARCHAR, correct_drafts BIGINT, output_tokens BIGINT, overshoot BOOLEAN, health_check BOOLEAN);
CREATE TABLE runs(run_id VARCHAR, "json" VARCHAR);
INSERT INTO cycles VALUES (0, 'ffffffffffffffffffffffffffffffff', '', 1, 'speculative', 1, 3, 1, 4, 1700000000010000000, 1700000000020000000, true);
INSERT INTO cycles VALUES (1, 'ffffffffffffffffffffffffffffffff', '', 2, 'speculative', 1, 3, 1, 4, 1700000000020000000, 1700000000030000000, false);
INSERT INTO format VALUES ('spectrace', 1);
INSERT INTO phases VALUES (0, 0, 0, 'TP0', 'host', 'draft', 1700000000010000000, 1700000000015000000, 1);
INSERT INTO phases VALUES (0, 0, 1, 'TP0', 'host', 'verify.forward', 1700000000015000000, 1700000000020000000, 1);
INSERT INTO ranks VALUES (0, 0, 'TP0', 1700000000010000000, 1700000000020000000, 'host', 40000, false, false);
INSERT INTO ranks VALUES (1, 0, 'TP0', 1700000000020000000, 1700000000030000000, 'off', 40000, false, false);
INSERT INTO requests VALUES (0, 0, 'r1', 2, 3, false, false);
INSERT INTO runs VALUES ('ffffffffffffffffffffffffffffffff', '{"run_id":"ffffffffffffffffffffffffffffffff","host":"old","server_pid":10,"command":["python"],"ranks":[{"name":"TP0","pid":11}],"anchor_unix_ns":1700000000000000000,"anchor_monotonic_ns":0,"engine":"sglang 0.5.23"}');
