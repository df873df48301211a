-- The tables that `edge-gateway destination add postgrest` delivers into: run it in Supabase's SQL editor, or by psql
-- on a PostgreSQL with PostgREST before it, which has the role "authenticated". Safe to run again.
--
-- The gateway's account may add its own rows and read them; it can change and delete nothing. A row belongs to the
-- account that added it, and is known by owner and id: an id alone could be guessed and taken by another account.
create table if not exists heart_rate(
    owner uuid not null default (current_setting('request.jwt.claims', true)::json ->> 'sub')::uuid,
    id uuid not null,                  -- the data point, the same whenever it is sent
    patient text,                      -- only if the destination was added with patient=id
    sensor text not null,              -- the gateway's number of the strap
    kind text not null,                -- heart-rate, average-heart-rate, rr-interval
    measured_at timestamptz not null,  -- of an average or an interval: its begin
    until timestamptz,                 -- its end, excluded
    bpm numeric(5, 1),
    rr_ms double precision,
    primary key (owner, id)
);
create index if not exists heart_rate_by_time on heart_rate(sensor, measured_at);

alter table heart_rate enable row level security;
drop policy if exists gateway_adds on heart_rate;
create policy gateway_adds on heart_rate for insert to authenticated
    with check (owner = (select (current_setting('request.jwt.claims', true)::json ->> 'sub')::uuid));
drop policy if exists gateway_reads on heart_rate;
create policy gateway_reads on heart_rate for select to authenticated
    using (owner = (select (current_setting('request.jwt.claims', true)::json ->> 'sub')::uuid));
grant select, insert on heart_rate to authenticated;

-- Why samples are missing: time of a strap without any, and its cause. `destination add … gaps=no` does without it.
create table if not exists heart_rate_gap(
    owner uuid not null default (current_setting('request.jwt.claims', true)::json ->> 'sub')::uuid,
    id text not null,                  -- the gap, the same whenever it is sent
    patient text,
    sensor text not null,
    cause text not null,               -- out-of-range, no-contact, …: docs/operate/operations.md lists them
    began_at timestamptz,              -- NULL: the gateway's clock was not set then
    ended_at timestamptz,
    seconds double precision,          -- NULL: not known
    primary key (owner, id)
);
create index if not exists heart_rate_gap_by_time on heart_rate_gap(sensor, began_at);

-- How much of each day (UTC) a strap was recorded: what was expected is covered, or has a cause.
create table if not exists heart_rate_coverage(
    owner uuid not null default (current_setting('request.jwt.claims', true)::json ->> 'sub')::uuid,
    id text not null,
    patient text,
    sensor text not null,
    day date not null,
    expected_seconds double precision not null,
    covered_seconds double precision not null,
    seconds_by_cause jsonb not null,
    primary key (owner, id)
);

do $$
declare name text;
begin
    foreach name in array array['heart_rate_gap', 'heart_rate_coverage'] loop
        execute format('alter table %I enable row level security', name);
        execute format('drop policy if exists gateway_adds on %I', name);
        execute format('create policy gateway_adds on %I for insert to authenticated with check '
            '(owner = (select (current_setting(''request.jwt.claims'', true)::json ->> ''sub'')::uuid))', name);
        execute format('drop policy if exists gateway_reads on %I', name);
        execute format('create policy gateway_reads on %I for select to authenticated using '
            '(owner = (select (current_setting(''request.jwt.claims'', true)::json ->> ''sub'')::uuid))', name);
        execute format('grant select, insert on %I to authenticated', name);
    end loop;
end $$;

-- PostgREST learns of the tables.
notify pgrst, 'reload schema';
