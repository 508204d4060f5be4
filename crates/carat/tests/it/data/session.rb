# frozen_string_literal: true

require 'cgi'
require 'json'
require 'securerandom'
require_relative 'small_server'

# A small application with a login: a form with a token, a cookie, a redirect, and pages that need both.
class SessionServer < SmallServer
  # A browser sends the first three, the third only below /admin.
  SET = [
    'Set-Cookie: root=1; Path=/',
    'Set-Cookie: safe=1; Path=/; Secure; Max-Age=600',
    'Set-Cookie: admin=1; Path=/admin; Domain=127.0.0.1',
    'Set-Cookie: here=1; Path=/cookies/set',
    'Set-Cookie: past=1; Path=/; Expires=Sat, 01-Feb-2020 00:00:00 GMT',
    'Set-Cookie: other=1; Path=/; Domain=elsewhere.test'
  ].freeze

  def initialize(env)
    super
    @sessions = {}
    @visits = 0
  end

  private

  def answer(method, target, headers, body)
    path, query = target.split('?', 2)
    cookies = headers.fetch('cookie', '').split('; ').to_h { |pair| pair.split('=', 2) }
    session = cookies['session']
    case [method, path]
    when %w[GET /login] then login_form
    when %w[POST /login] then login(session, CGI.parse(body))
    when %w[GET /my/page] then page(session)
    when %w[POST /logout] then reply(200, @sessions.delete(session) ? 'bye' : 'nobody')
    when %w[GET /search] then reply(200, "found #{CGI.parse(query.to_s)['q'].first}")
    when %w[POST /api] then api(session, headers, body)
    when %w[GET /cookies/set] then reply(200, 'set', SET)
    when %w[GET /cookies/seen], %w[GET /admin/seen] then reply(200, "sent: #{headers['cookie']}")
    when %w[GET /echo] then reply(500, "wrong key #{headers['authorization']}")
    when %w[GET /visits] then reply(200, @visits.to_s)
    else fault(path)
    end
  end

  # Every visitor gets a session and a token of its own; a token with characters that a form must escape.
  def login_form
    session = SecureRandom.hex(8)
    @sessions[session] = { token: "#{SecureRandom.hex(4)}+/=&", user: nil }
    @visits += 1
    form = "<form><input type=hidden name=authenticity_token value=\"#{CGI.escapeHTML(@sessions[session][:token])}\"></form>"
    reply(200, "<!DOCTYPE html><title>Login</title>#{form}", ["Set-Cookie: session=#{session}; path=/; HttpOnly"])
  end

  def login(session, form)
    known = @sessions[session]
    return reply(422, 'wrong token') unless known && form['authenticity_token'] == [known[:token]]

    name = form['username'].first
    return reply(200, '<p>Invalid user or password</p>') unless form['password'] == ["#{name}-secret"]

    known[:user] = name
    reply(302, '', ['Location: /my/page'])
  end

  def page(session)
    user = @sessions.dig(session, :user)
    return reply(302, '', ['Location: /login']) unless user

    reply(200, "<p class=user>Logged in as #{user}</p>")
  end

  def api(session, headers, body)
    user = @sessions.dig(session, :user)
    return reply(401, '{}') unless user && headers['authorization'] == 'Bearer k3y'

    reply(200, JSON.generate(items: [{ id: JSON.parse(body)['id'], user: user }]))
  end

  def fault(path)
    case path
    when '/loop' then reply(302, '', ['Location: /loop'])
    when '/away' then reply(302, '', ['Location: http://elsewhere.test/'])
    when '/cookies' then reply(200, '', Array.new(60) { |n| "Set-Cookie: c#{n}=x" })
    when '/long' then reply(200, 'x' * 1_100_000)
    else reply(404, 'nothing here')
    end
  end
end

SessionServer.new(ENV).run
