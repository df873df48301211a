-- The table that `edge-gateway destination add postgrest` delivers into: run it in Supabase's SQL editor, or by psql
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

-- PostgREST learns of the table.
notify pgrst, 'reload schema';
